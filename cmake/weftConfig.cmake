include(${CMAKE_CURRENT_LIST_DIR}/weftTargets.cmake)
