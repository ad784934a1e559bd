# bench/peers/<name>.c -> ffngen_peer_<name>.so, a module for each peer that is found here; `ffngen bench --vs` loads them.
#
# CMAKE_PREFIX_PATH is looked into first, so that a newer build of a peer is taken. The command does not link them.

# ffn_peer(name VERSION text SOURCES ... [INCLUDES ...] LIBRARIES ...)
function(ffn_peer name)
  cmake_parse_arguments(arg "" "VERSION" "SOURCES;INCLUDES;LIBRARIES" ${ARGN})
  list(GET arg_LIBRARIES 0 library)
  message(STATUS "Peer ${name}: ${arg_VERSION} (${library})")
  list(TRANSFORM arg_SOURCES PREPEND bench/peers/)
  add_library(ffngen_peer_${name} MODULE ${arg_SOURCES} bench/buffers.c bench/rounds.c bench/team.c)
  set_target_properties(ffngen_peer_${name} PROPERTIES PREFIX "" SUFFIX .so)
  target_include_directories(ffngen_peer_${name} PRIVATE bench runtime)
  target_include_directories(ffngen_peer_${name} SYSTEM PRIVATE ${arg_INCLUDES})
  target_link_libraries(ffngen_peer_${name} PRIVATE ffn_flags ${arg_LIBRARIES} Threads::Threads m)
  add_dependencies(ffngen_command ffngen_peer_${name})
  install(TARGETS ffngen_peer_${name} LIBRARY DESTINATION lib/ffngen/peers)
endfunction()

# The number in `#define <macro> "1.2"` or `#define <macro> 1` of a header.
function(ffn_peer_version header macro variable)
  file(STRINGS ${header} line REGEX "#define ${macro} +\"?[0-9]" LIMIT_COUNT 1)
  string(REGEX REPLACE ".* \"?([0-9][^\" ]*).*" "\\1" version "${line}")
  set(${variable} "${version}" PARENT_SCOPE)
endfunction()

ffn_peer(openblas VERSION "${PC_OPENBLAS_VERSION}" SOURCES openblas.c gemm_ffn.c INCLUDES ${OpenBLASC_INCLUDE_DIR}
         LIBRARIES ${OpenBLASC_LIBRARY})

find_path(FFN_ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl.h)
find_library(FFN_ONEDNN_LIBRARY dnnl)
if(FFN_ONEDNN_INCLUDE_DIR AND FFN_ONEDNN_LIBRARY)
  foreach(part MAJOR MINOR PATCH)
    ffn_peer_version(${FFN_ONEDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h DNNL_VERSION_${part} ${part})
  endforeach()
  ffn_peer(onednn VERSION ${MAJOR}.${MINOR}.${PATCH} SOURCES onednn.c onednn_matmul.c
           INCLUDES ${FFN_ONEDNN_INCLUDE_DIR} LIBRARIES ${FFN_ONEDNN_LIBRARY})
else()
  message(STATUS "Peer onednn: not found; Debian has it in libdnnl-dev")
endif()

# The interface of 1.x; what is to come after it has another one. It wants a BLAS, or its own stand-in.
find_path(FFN_LIBXSMM_INCLUDE_DIR libxsmm.h)
find_library(FFN_LIBXSMM_LIBRARY xsmm)
find_library(FFN_LIBXSMM_NOBLAS xsmmnoblas)
if(FFN_LIBXSMM_INCLUDE_DIR)
  ffn_peer_version(${FFN_LIBXSMM_INCLUDE_DIR}/libxsmm_version.h LIBXSMM_CONFIG_VERSION libxsmm_version)
endif()
if(FFN_LIBXSMM_LIBRARY AND FFN_LIBXSMM_NOBLAS AND libxsmm_version MATCHES "^1\\.")
  ffn_peer(libxsmm VERSION ${libxsmm_version} SOURCES libxsmm.c libxsmm_blocks.c INCLUDES ${FFN_LIBXSMM_INCLUDE_DIR}
           LIBRARIES ${FFN_LIBXSMM_LIBRARY} ${FFN_LIBXSMM_NOBLAS} ${CMAKE_DL_LIBS} rt)
else()
  message(STATUS "Peer libxsmm: 1.x was not found (found: '${libxsmm_version}'); Debian has it in libxsmm-dev")
endif()

find_path(FFN_BLIS_INCLUDE_DIR blis.h PATH_SUFFIXES blis blis-openmp blis-pthread)
find_library(FFN_BLIS_LIBRARY blis)
if(FFN_BLIS_INCLUDE_DIR AND FFN_BLIS_LIBRARY)
  ffn_peer(blis VERSION "of a version that only the library tells" SOURCES blis.c gemm_ffn.c INCLUDES ${FFN_BLIS_INCLUDE_DIR}
           LIBRARIES ${FFN_BLIS_LIBRARY})
else()
  message(STATUS "Peer blis: not found; Debian has it in libblis-dev")
endif()
mark_as_advanced(FFN_ONEDNN_INCLUDE_DIR FFN_ONEDNN_LIBRARY FFN_LIBXSMM_INCLUDE_DIR FFN_LIBXSMM_LIBRARY
                 FFN_LIBXSMM_NOBLAS FFN_BLIS_INCLUDE_DIR FFN_BLIS_LIBRARY)
