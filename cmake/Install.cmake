# What `cmake --install` lays down: headers, shared and static libraries, the CMake package, the pkg-config files. All of
# it finds its parts relative to itself, so that an installed tree can be moved.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON) # libraries outside the linker's own folders, as LLVM's may be
set(ffn_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ffngen)
set(ffn_public_dir ${PROJECT_BINARY_DIR}/include)

# The public headers as users get them: the one table they include, templates/isas.def, becomes the enumerators it stands
# for, so that an installed header stands alone.
function(ffn_public_header source)
  cmake_path(GET source FILENAME name)
  set(table ${PROJECT_SOURCE_DIR}/templates/isas.def)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${source} ${table})
  file(READ ${table} rows)
  string(REGEX MATCHALL "\nFFN_ISA_ROW\\([A-Z0-9_]+" rows "${rows}")
  list(TRANSFORM rows REPLACE "\nFFN_ISA_ROW\\(" "    FFN_ISA_")
  list(JOIN rows ",\n" rows)
  file(READ ${PROJECT_SOURCE_DIR}/${source} text)
  string(REGEX REPLACE "#define FFN_ISA_ROW[^\n]*\n#include \"../templates/isas.def\"" "${rows}," text "${text}")
  if(text MATCHES "#include \"[^\"]*/")
    message(FATAL_ERROR "${source} includes ${CMAKE_MATCH_0}\", which is not installed")
  endif()
  file(CONFIGURE OUTPUT ${ffn_public_dir}/${name} CONTENT "${text}" @ONLY)
endfunction()

# ffn_install(name HEADERS header... [REQUIRES name...]): libraries and pkg-config file of one ffn_library
function(ffn_install name)
  cmake_parse_arguments(arg "" "" "HEADERS;REQUIRES" ${ARGN})
  foreach(header IN LISTS arg_HEADERS)
    ffn_public_header(${header})
    cmake_path(GET header FILENAME file)
    install(FILES ${ffn_public_dir}/${file} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  endforeach()

  foreach(target ${name} ${name}_static)
    target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${ffn_public_dir}>
                                                   $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    add_library(ffn::${target} ALIAS ${target})
  endforeach()
  foreach(required IN LISTS arg_REQUIRES)
    target_link_libraries(${name} INTERFACE ${required})
    target_link_libraries(${name}_static INTERFACE ${required}_static)
  endforeach()
  install(TARGETS ${name} EXPORT ffngenTargets)
  install(TARGETS ${name}_static EXPORT ${name}StaticTargets)
  install(EXPORT ${name}StaticTargets NAMESPACE ffn:: DESTINATION ${ffn_package_dir})

  set(private_libs_ffn "-lm -pthread")
  set(private_libs_ffnblas "-lopenblas")
  set(private_libs_ffnpool "-lpthreadpool -pthread")
  set(private_libs_ffngen "${LibLLVM_LIBRARY}")
  set(private_libs ${private_libs_${name}})
  list(JOIN arg_REQUIRES " " requires)
  string(REGEX REPLACE "/[^/]+" "/.." up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  configure_file(cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

# What ffn_add_kernels needs to know: the ISAs, as "name:architecture", and the command, under one name in this tree and
# in an installed one.
include(FfnAddKernels)
file(READ templates/isas.def ffn_isas)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/templates/isas.def)
string(REGEX MATCHALL "\nFFN_ISA_ROW\\([^\"]*\"[^\"]+\", *FFN_ARCH_[A-Z0-9_]+" ffn_isas "${ffn_isas}")
list(TRANSFORM ffn_isas REPLACE ".*\"(.+)\", *FFN_ARCH_(.+)" "\\1:\\2")
string(TOLOWER "${ffn_isas}" ffn_isas)
set_property(GLOBAL PROPERTY FFN_ISAS ${ffn_isas})
set(ffn_package_kind "") # words for who looks for the command in vain
if(FFN_BUILD_RUNTIME_ONLY)
  set(ffn_package_kind "This libffn was built alone (FFN_BUILD_RUNTIME_ONLY), without the command. ")
endif()
set_property(GLOBAL PROPERTY FFN_PACKAGE "${ffn_package_kind}")

function(ffn_install_package)
  if(TARGET ffngen_command)
    add_executable(ffn::ffngen_command ALIAS ffngen_command)
  endif()
  install(EXPORT ffngenTargets NAMESPACE ffn:: DESTINATION ${ffn_package_dir})
  string(REGEX MATCH "^[0-9]+" llvm_major "${LibLLVM_VERSION}")
  configure_package_config_file(cmake/ffngenConfig.cmake.in ${PROJECT_BINARY_DIR}/ffngenConfig.cmake
                                INSTALL_DESTINATION ${ffn_package_dir} PATH_VARS CMAKE_INSTALL_BINDIR
                                NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/ffngenConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/ffngenConfig.cmake ${PROJECT_BINARY_DIR}/ffngenConfigVersion.cmake
                cmake/FindLibLLVM.cmake cmake/FindOpenBLASC.cmake cmake/FindPThreadPool.cmake
                cmake/FfnAddKernels.cmake
          DESTINATION ${ffn_package_dir})
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
endfunction()
