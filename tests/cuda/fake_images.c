/* SPDX-License-Identifier: Apache-2.0 */
/* The images of the fake driver, for a shared library that has them in place of its own: see CMakeLists.txt. */
#include "fake_images.h"
