/* The images of the fake driver, for a shared library that has them in place of its own: see CMakeLists.txt. */
#include "fake_images.h"
