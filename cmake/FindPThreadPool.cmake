# Finds pthreadpool (pthreadpool.h) -> imported target PThreadPool::PThreadPool. It brings no pkg-config file.

find_path(PThreadPool_INCLUDE_DIR NAMES pthreadpool.h)
find_library(PThreadPool_LIBRARY NAMES pthreadpool)
mark_as_advanced(PThreadPool_INCLUDE_DIR PThreadPool_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  PThreadPool REQUIRED_VARS PThreadPool_LIBRARY PThreadPool_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "On Debian and Ubuntu: apt-get install libpthreadpool-dev.")
if(PThreadPool_FOUND AND NOT TARGET PThreadPool::PThreadPool)
  add_library(PThreadPool::PThreadPool UNKNOWN IMPORTED)
  set_target_properties(PThreadPool::PThreadPool PROPERTIES IMPORTED_LOCATION ${PThreadPool_LIBRARY}
                                                            INTERFACE_INCLUDE_DIRECTORIES ${PThreadPool_INCLUDE_DIR})
endif()
