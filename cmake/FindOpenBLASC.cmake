# Finds OpenBLAS with its C interface (cblas.h, openblas_get_corename) -> imported target OpenBLASC::OpenBLASC.

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(PC_OPENBLAS QUIET openblas)
endif()
find_path(OpenBLASC_INCLUDE_DIR NAMES cblas.h PATHS ${PC_OPENBLAS_INCLUDE_DIRS} PATH_SUFFIXES openblas openblas-pthread)
find_library(OpenBLASC_LIBRARY NAMES openblas PATHS ${PC_OPENBLAS_LIBRARY_DIRS})
mark_as_advanced(OpenBLASC_INCLUDE_DIR OpenBLASC_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  OpenBLASC REQUIRED_VARS OpenBLASC_LIBRARY OpenBLASC_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "On Debian and Ubuntu: apt-get install libopenblas-dev. Or set FFN_BUILD_RUNTIME_ONLY=ON.")
if(OpenBLASC_FOUND AND NOT TARGET OpenBLASC::OpenBLASC)
  add_library(OpenBLASC::OpenBLASC UNKNOWN IMPORTED)
  set_target_properties(OpenBLASC::OpenBLASC PROPERTIES IMPORTED_LOCATION ${OpenBLASC_LIBRARY}
                                                        INTERFACE_INCLUDE_DIRECTORIES ${OpenBLASC_INCLUDE_DIR})
endif()
