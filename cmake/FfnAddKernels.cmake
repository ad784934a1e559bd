# ffn_add_kernels(<target> SPECS [<name>=]<spec>... [ISAS <isa>...] [PREFIX <prefix>] [OUTPUT <name>.h] [STATIC]
#                 [LIBFFN] [TUNED <file>] [MACHINE <file>] [WEIGHTS <file>] [OPTIONS <option>...])
#
# Specs -> a library that holds their kernels and hands the folder of its header to what links it. The header is
# generated when the project is built, by an ffngen that runs on the machine that builds (docs/cmake.md). It is written
# anew only where its text changes, so what includes it is compiled again only then.
#
# Installed with the package; a project that takes this tree in by add_subdirectory has the function too.

cmake_policy(PUSH)
cmake_policy(VERSION 3.25) # whatever the project is written for: a function keeps the policies of its file

function(_ffn_kernels_fail target)
  list(JOIN ARGN "" why)
  message(FATAL_ERROR "ffn_add_kernels(${target}): ${why}")
endfunction()

# ---- Which command generates ----

# The ffngen to run -> <command>: a file, or a target of this build. In a cross build the package or the tree may hold
# one that only the target machine could run; that one is never taken.
function(_ffn_kernels_command target command)
  if(FFNGEN_EXECUTABLE)
    get_filename_component(executable "${FFNGEN_EXECUTABLE}" ABSOLUTE BASE_DIR "${CMAKE_SOURCE_DIR}")
    if(NOT EXISTS "${executable}" OR IS_DIRECTORY "${executable}")
      _ffn_kernels_fail(${target} "FFNGEN_EXECUTABLE is ${FFNGEN_EXECUTABLE}, and there is no such file. It names the "
                        "command ffngen of the machine that builds.")
    endif()
    set(${command} ${executable} PARENT_SCOPE)
    return()
  endif()
  if(TARGET ffn::ffngen_command)
    get_target_property(imported ffn::ffngen_command IMPORTED)
    get_target_property(processor ffn::ffngen_command FFN_PROCESSOR)
    if((imported AND processor STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR) OR NOT (imported OR CMAKE_CROSSCOMPILING))
      set(${command} ffn::ffngen_command PARENT_SCOPE)
      return()
    endif()
  endif()
  find_program(FFNGEN_EXECUTABLE ffngen DOC "ffngen, the command, of the machine that builds" NO_CMAKE_FIND_ROOT_PATH)
  if(NOT FFNGEN_EXECUTABLE)
    get_property(package GLOBAL PROPERTY FFN_PACKAGE)
    _ffn_kernels_fail(${target} "no ffngen for this machine (${CMAKE_HOST_SYSTEM_NAME} on "
                      "${CMAKE_HOST_SYSTEM_PROCESSOR}) was found. ${package}Build or install ffngen on the machine "
                      "that builds and name the command: -D FFNGEN_EXECUTABLE=/path/to/ffngen.")
  endif()
  set(${command} ${FFNGEN_EXECUTABLE} PARENT_SCOPE)
endfunction()

# ---- For which instruction sets ----

# FFN_ISAS holds "name:architecture" for every row of templates/isas.def.
function(_ffn_kernels_isas target given result)
  get_property(rows GLOBAL PROPERTY FFN_ISAS)
  set(known)
  set(chosen)
  string(TOLOWER "${CMAKE_SYSTEM_PROCESSOR}" processor)
  string(REGEX REPLACE "^(amd64|x64)$" "x86_64" processor "${processor}")
  string(REGEX REPLACE "^arm64$" "aarch64" processor "${processor}")
  foreach(row IN LISTS rows)
    string(REGEX MATCH "^([^:]+):(.+)$" row "${row}")
    list(APPEND known ${CMAKE_MATCH_1})
    if(CMAKE_MATCH_2 STREQUAL processor)
      list(APPEND chosen ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(APPEND known portable)
  list(APPEND chosen portable)
  if(given)
    string(REPLACE "," ";" chosen "${given}")
  endif()
  foreach(isa IN LISTS chosen)
    if(NOT isa IN_LIST known)
      list(JOIN known ", " known)
      _ffn_kernels_fail(${target} "ISAS: there is no '${isa}', there are ${known}.")
    endif()
  endforeach()
  list(JOIN chosen "," chosen)
  set(${result} ${chosen} PARENT_SCOPE)
endfunction()

# ---- The function ----

function(ffn_add_kernels target)
  cmake_parse_arguments(arg "STATIC;LIBFFN" "PREFIX;OUTPUT;TUNED;MACHINE;WEIGHTS" "SPECS;ISAS;OPTIONS" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    list(JOIN arg_UNPARSED_ARGUMENTS " " unknown)
    _ffn_kernels_fail(${target} "'${unknown}' is not understood, there are SPECS, ISAS, PREFIX, OUTPUT, STATIC, LIBFFN, "
                      "TUNED, MACHINE, WEIGHTS and OPTIONS.")
  endif()
  if(arg_KEYWORDS_MISSING_VALUES)
    _ffn_kernels_fail(${target} "${arg_KEYWORDS_MISSING_VALUES} has no value.")
  endif()
  if(NOT arg_SPECS)
    _ffn_kernels_fail(${target} "SPECS is missing: the shapes to generate kernels for, as SPECS d768-f3072-gelu-bias.")
  endif()
  if(TARGET ${target})
    _ffn_kernels_fail(${target} "there is a target of that name already.")
  endif()
  if(NOT arg_PREFIX)
    string(MAKE_C_IDENTIFIER "${target}" arg_PREFIX)
  endif()
  string(TOLOWER "${arg_PREFIX}" lower)
  if(NOT arg_PREFIX MATCHES "^[A-Za-z][A-Za-z0-9_]+$" OR lower MATCHES "^ffn(gen|_?blas|_?pool)?$")
    _ffn_kernels_fail(${target} "'${arg_PREFIX}' cannot begin the names of C functions here: give PREFIX, a letter and "
                      "more letters, digits or '_', and not a name of libffn's own.")
  endif()
  get_property(others GLOBAL PROPERTY FFN_PREFIXES)
  if(lower IN_LIST others)
    _ffn_kernels_fail(${target} "another library has the prefix ${arg_PREFIX}, and a program could not tell their "
                      "functions apart: give one of them another PREFIX.")
  endif()
  set_property(GLOBAL APPEND PROPERTY FFN_PREFIXES ${lower})
  if(NOT arg_OUTPUT)
    set(arg_OUTPUT ${arg_PREFIX}.h)
  elseif(arg_OUTPUT MATCHES "/" OR NOT arg_OUTPUT MATCHES "\\.h(pp|h|xx)?$")
    _ffn_kernels_fail(${target} "OUTPUT: '${arg_OUTPUT}' is no file name of a header, such as ${arg_PREFIX}.h.")
  endif()
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(C IN_LIST languages)
    set(suffix c)
  elseif(CXX IN_LIST languages)
    set(suffix cpp)
  else()
    _ffn_kernels_fail(${target} "the project enables neither C nor C++.")
  endif()
  _ffn_kernels_isas(${target} "${arg_ISAS}" isas)
  _ffn_kernels_command(${target} command)

  set(options --format header --isa ${isas} --prefix ${arg_PREFIX})
  set(files)
  foreach(kind tuned machine weights)
    string(TOUPPER ${kind} keyword)
    if(arg_${keyword})
      cmake_path(ABSOLUTE_PATH arg_${keyword} BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE OUTPUT_VARIABLE file)
      list(APPEND options --${kind} ${file})
      list(APPEND files ${file})
    endif()
  endforeach()
  if(arg_STATIC)
    list(APPEND options --static)
  endif()
  list(APPEND options ${arg_OPTIONS})

  string(TOUPPER ${arg_PREFIX} macro)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/ffn_kernels/${target})
  set(weights)
  set(definitions)
  if(arg_WEIGHTS) # in a file beside the header, whatever their size; the assembler finds it by this macro
    set(weights ${folder}/include/${arg_PREFIX}.ffnw)
    list(APPEND options --weights-out ${weights})
    string(REGEX MATCH "^([A-Za-z0-9_]+)=" named "${arg_SPECS}")
    string(TOUPPER "${macro}_${CMAKE_MATCH_1}" spec_macro)
    string(REGEX REPLACE "_$" "" spec_macro "${spec_macro}")
    set(definitions ${spec_macro}_WEIGHTS_FILE="${weights}")
  endif()
  set(header ${folder}/include/${arg_OUTPUT})
  set(fresh ${folder}/new/${arg_OUTPUT}) # of the same name: a header speaks of itself
  set(done ${folder}/done)
  file(MAKE_DIRECTORY ${folder}/include ${folder}/new)
  add_custom_command(
    OUTPUT ${done} ${weights} BYPRODUCTS ${header}
    COMMAND ${command} emit ${arg_SPECS} ${options} -o ${fresh}
    COMMAND ${CMAKE_COMMAND} -E copy_if_different ${fresh} ${header}
    COMMAND ${CMAKE_COMMAND} -E touch ${done}
    DEPENDS ${command} ${files}
    COMMENT "Generating ${arg_OUTPUT}: kernels for ${isas}" VERBATIM)

  if(arg_STATIC)
    add_library(${target} INTERFACE ${done})
    target_compile_definitions(${target} INTERFACE ${macro}_IMPLEMENTATION ${definitions})
    set(scope INTERFACE)
  else()
    set(source ${folder}/${arg_PREFIX}.${suffix})
    set(before "")
    if(arg_LIBFFN)
      set(before "#include <ffn.h>\n")
    endif()
    file(CONFIGURE OUTPUT ${source} @ONLY
         CONTENT "${before}#define ${macro}_IMPLEMENTATION\n#include \"${arg_OUTPUT}\"\n")
    add_library(${target} STATIC ${source} ${done})
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    # The bits of the portable kernel are promised, whatever a project does to its own arithmetic.
    target_compile_options(${target} PRIVATE -fno-fast-math $<$<OR:$<C_COMPILER_ID:Clang>,$<CXX_COMPILER_ID:Clang>>:
                           -Wno-unknown-warning-option -Wno-overriding-t-option -Wno-overriding-option>)
    target_compile_definitions(${target} PRIVATE ${definitions})
    set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS "${weights}")
    set(scope PUBLIC)
  endif()
  target_include_directories(${target} ${scope} $<BUILD_INTERFACE:${folder}/include>)
  if(arg_LIBFFN) # whose ffn.h the header wants to see first, to be a source of kernels for it
    target_link_libraries(${target} ${scope} ffn::ffn)
  endif()
endfunction()

cmake_policy(POP)
