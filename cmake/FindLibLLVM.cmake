# Finds the shared library of LLVM with its C API -> imported target LibLLVM::LibLLVM and LibLLVM_VERSION.
#
# Asked first is LLVM's own CMake package, then llvm-config. FFN_LLVM_VERSION (a major number) chooses one version;
# otherwise the newest supported one is taken. Installed with the package: a static libffngen needs it too.

set(_llvm_supported 19.1 18.1 17.0 16.0)
if(FFN_LLVM_VERSION)
  list(FILTER _llvm_supported INCLUDE REGEX "^${FFN_LLVM_VERSION}\\.")
endif()

set(LibLLVM_VERSION)
set(LibLLVM_LIBRARY)
set(_llvm_seen)
set(_log_level "${CMAKE_MESSAGE_LOG_LEVEL}")
foreach(_version IN LISTS _llvm_supported)
  string(REGEX MATCH "^[0-9]+" _major ${_version})

  set(CMAKE_MESSAGE_LOG_LEVEL WARNING) # LLVM's package reports on libraries that only its static parts need
  find_package(LLVM ${_version} CONFIG QUIET)
  set(CMAKE_MESSAGE_LOG_LEVEL "${_log_level}")
  list(APPEND _llvm_seen ${LLVM_CONSIDERED_VERSIONS})
  if(LLVM_FOUND)
    set(LibLLVM_VERSION ${LLVM_PACKAGE_VERSION})
    set(_llvm_include ${LLVM_INCLUDE_DIRS})
    set(_llvm_libdir ${LLVM_LIBRARY_DIR})
  else()
    find_program(LLVM_CONFIG_${_major} NAMES llvm-config-${_major} PATHS /usr/lib/llvm-${_major}/bin)
    mark_as_advanced(LLVM_CONFIG_${_major})
    if(LLVM_CONFIG_${_major})
      foreach(_question version includedir libdir)
        execute_process(COMMAND ${LLVM_CONFIG_${_major}} --${_question} OUTPUT_VARIABLE _llvm_${_question}
                        OUTPUT_STRIP_TRAILING_WHITESPACE)
      endforeach()
      set(LibLLVM_VERSION ${_llvm_version})
      set(_llvm_include ${_llvm_includedir})
    endif()
  endif()

  if(LibLLVM_VERSION)
    find_library(LibLLVM_LIBRARY_${_major} NAMES LLVM-${_major} LLVM PATHS ${_llvm_libdir} NO_DEFAULT_PATH)
    mark_as_advanced(LibLLVM_LIBRARY_${_major})
    if(LibLLVM_LIBRARY_${_major})
      set(LibLLVM_LIBRARY ${LibLLVM_LIBRARY_${_major}})
      break()
    endif()
  endif()
endforeach()

if(LibLLVM_LIBRARY)
  set(LibLLVM_FOUND TRUE)
  if(NOT TARGET LibLLVM::LibLLVM)
    add_library(LibLLVM::LibLLVM UNKNOWN IMPORTED)
    set_target_properties(LibLLVM::LibLLVM PROPERTIES IMPORTED_LOCATION ${LibLLVM_LIBRARY}
                                                      INTERFACE_INCLUDE_DIRECTORIES "${_llvm_include}")
  endif()
else()
  set(LibLLVM_FOUND FALSE)
  list(REMOVE_DUPLICATES _llvm_seen)
  list(JOIN _llvm_seen ", " _llvm_seen)
  string(CONCAT LibLLVM_NOT_FOUND_MESSAGE
         "LLVM ${FFN_LLVM_VERSION} with its development files was not found: versions 16 to 19 serve. "
         "On Debian and Ubuntu: apt-get install llvm-19-dev. Elsewhere: set LLVM_DIR to the folder of LLVMConfig.cmake. "
         "Versions seen: ${_llvm_seen}.")
  if(LibLLVM_FIND_REQUIRED)
    message(FATAL_ERROR "${LibLLVM_NOT_FOUND_MESSAGE}")
  endif()
endif()
