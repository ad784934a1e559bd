# ffn_add_kernels as a stranger's project uses it: steps of install.cmake, which brings run(), installed() and the
# variables.
# Steps: kernels, kernels_cross, kernels_subdirectory, kernels_errors.

set(project ${SOURCE}/tests/consumer_kernels)

function(package_folder result)
  installed(ffngenConfig\\.cmake config)
  cmake_path(GET config PARENT_PATH folder)
  set(${result} ${folder} PARENT_SCOPE)
endfunction()

# expect(text [NOT] pattern...): each is in the text, or is not after NOT
function(expect text)
  set(wanted TRUE)
  foreach(pattern IN LISTS ARGN)
    if(pattern STREQUAL "NOT")
      set(wanted FALSE)
    elseif((wanted AND NOT text MATCHES "${pattern}") OR (NOT wanted AND text MATCHES "${pattern}"))
      message(FATAL_ERROR "'${pattern}' ${wanted} was expected to be in what follows (TRUE) or not (FALSE):\n${text}")
    endif()
  endforeach()
endfunction()

function(build_and_run folder output)
  run(${CMAKE_COMMAND} --build ${folder} -j 2 OUTPUT text)
  run(${CMAKE_CTEST_COMMAND} --test-dir ${folder} --output-on-failure --no-tests=error)
  set(${output} "${text}" PARENT_SCOPE)
endfunction()

# A build that is made again, with nothing touched and with what the kernels depend on touched.
function(rebuild folder spec)
  file(TIMESTAMP ${folder}/ffn_kernels/layers/include/layers.h written)
  run(${CMAKE_COMMAND} --build ${folder} OUTPUT text)
  expect("${text}" NOT Generating Building Linking)

  installed(bin/ffngen command)
  execute_process(COMMAND ${CMAKE_COMMAND} -E sleep 1.1) # time stamps may have whole seconds
  file(TOUCH ${command})
  run(${CMAKE_COMMAND} --build ${folder} OUTPUT text)
  expect("${text}" "Generating layers.h" "Generating local_layer.h" NOT Building)
  file(TIMESTAMP ${folder}/ffn_kernels/layers/include/layers.h now)
  if(NOT now STREQUAL written)
    message(FATAL_ERROR "layers.h was written anew, and is the same")
  endif()
  run(${CMAKE_COMMAND} --build ${folder} OUTPUT text)
  expect("${text}" NOT Generating Building Linking)

  run(${CMAKE_COMMAND} -D KERNELS_SPEC=${spec} ${folder})
  build_and_run(${folder} text)
  expect("${text}" "Generating layers.h" "layers.dir.*Building|Building.*layers.dir" NOT "Generating local_layer.h")
  file(READ ${folder}/ffn_kernels/layers/include/layers.h header)
  expect("${header}" "${spec}")
endfunction()

function(step_kernels)
  package_folder(package)
  foreach(pair "C;Ninja" "CXX;Unix Makefiles")
    list(POP_FRONT pair language)
    set(folder ${work}/kernels_${language})
    file(REMOVE_RECURSE ${folder})
    run(${CMAKE_COMMAND} -S ${project} -B ${folder} -G ${pair} -D ffngen_DIR=${package} -D LANGUAGE=${language}
        -D CMAKE_BUILD_TYPE=Release)
    build_and_run(${folder} text)
    expect("${text}" "Generating layers.h")
    rebuild(${folder} d24-f40-silu-bias)
  endforeach()

  # -ffast-math of the project does not reach the kernels' own code, which is position-independent whatever the project is.
  set(folder ${work}/kernels_fast)
  file(REMOVE_RECURSE ${folder})
  run(${CMAKE_COMMAND} -S ${project} -B ${folder} -G ${GENERATOR} -D ffngen_DIR=${package}
      "-D CMAKE_C_FLAGS=-ffast-math -fno-pie")
  run(${CMAKE_COMMAND} --build ${folder} --target wrapped)
endfunction()

# The package of this machine, and one whose own ffngen this machine cannot be supposed to run.
function(step_kernels_cross)
  execute_process(COMMAND ${SOURCE}/scripts/cross.sh RESULT_VARIABLE result OUTPUT_VARIABLE lacks)
  if(NOT result EQUAL 0)
    message(STATUS "SKIPPED: needed: ${lacks}")
    return()
  endif()
  find_program(emulator NAMES qemu-aarch64 qemu-aarch64-static REQUIRED)
  package_folder(package)
  set(common -S ${project} -G ${GENERATOR} -D ffngen_DIR=${package} -D CMAKE_BUILD_TYPE=Release
      -D CMAKE_TOOLCHAIN_FILE=${SOURCE}/cmake/aarch64-linux-gnu.cmake
      -D CMAKE_CROSSCOMPILING_EMULATOR=${emulator})
  set(ENV{QEMU_LD_PREFIX} /usr/aarch64-linux-gnu)
  set(folder ${work}/kernels_cross)
  file(REMOVE_RECURSE ${folder})
  run(${CMAKE_COMMAND} -B ${folder} ${common})
  build_and_run(${folder} text)
  expect("${text}" "Generating layers.h: kernels for neon,portable")
  run(${CMAKE_COMMAND} --build ${folder} OUTPUT text)
  expect("${text}" NOT Generating Building Linking)

  file(REMOVE_RECURSE ${work}/foreign ${folder}_foreign)
  file(COPY "${prefix}/" DESTINATION ${work}/foreign)
  file(GLOB_RECURSE config ${work}/foreign/*ffngenConfig.cmake)
  file(READ ${config} text)
  string(REGEX REPLACE "FFN_PROCESSOR \"[^\"]+\"" "FFN_PROCESSOR \"aarch64\"" text "${text}")
  file(WRITE ${config} "${text}")
  cmake_path(GET config PARENT_PATH foreign)
  set(ENV{PATH} /usr/bin:/bin)
  execute_process(COMMAND ${CMAKE_COMMAND} -B ${folder}_foreign ${common} -D ffngen_DIR=${foreign}
                  RESULT_VARIABLE result ERROR_VARIABLE text OUTPUT_QUIET)
  string(REGEX REPLACE "[ \n]+" " " text "${text}")
  expect("${text};${result}" "no ffngen for this machine .* -D FFNGEN_EXECUTABLE=" ";1$")
  installed(bin/ffngen command)
  run(${CMAKE_COMMAND} -B ${folder}_foreign ${common} -D ffngen_DIR=${foreign} -D FFNGEN_EXECUTABLE=${command})
endfunction()

# The tree itself inside a project: its ffngen is built first, and generates.
function(step_kernels_subdirectory)
  set(folder ${work}/kernels_subdirectory)
  file(REMOVE_RECURSE ${folder})
  run(${CMAKE_COMMAND} -S ${project} -B ${folder} -G ${GENERATOR} -D FFN_FROM=${SOURCE} -D CMAKE_BUILD_TYPE=Debug
      -D CMAKE_C_COMPILER=${C_COMPILER})
  build_and_run(${folder} text)
  expect("${text}" "Linking C executable [^\n]*ffngen.*Generating layers.h")
endfunction()

# Each call of the project that is wrong -> what must be said.
function(step_kernels_errors)
  package_folder(package)
  set(ENV{PATH} /usr/bin:/bin) # where no ffngen is
  foreach(row "no-specs|SPECS is missing" "unknown-isa|there is no 'avx1024'. there are avx2, .*portable"
              "prefix|'1st' cannot begin the names" "short|'k' cannot begin.* give PREFIX"
              "ours|'FFN' cannot begin" "twice|another library has the prefix Same" "file|there is no such file" "alone|FFN_BUILD_RUNTIME_ONLY")
    string(REGEX MATCH "^([^|]+)[|](.+)$" row "${row}")
    set(name ${CMAKE_MATCH_1})
    set(expected "${CMAKE_MATCH_2}")
    set(folder ${work}/kernels_errors/${name})
    file(REMOVE_RECURSE ${folder})
    set(options -D ffngen_DIR=${package} -D WRONG=${name})
    if(name STREQUAL "file")
      list(APPEND options -D FFNGEN_EXECUTABLE=/nowhere/ffngen)
    elseif(name STREQUAL "alone")
      list(APPEND options -D FFN_FROM=${SOURCE} -D FFN_BUILD_RUNTIME_ONLY=ON)
    endif()
    execute_process(COMMAND ${CMAKE_COMMAND} -S ${project} -B ${folder} -G ${GENERATOR} ${options}
                    RESULT_VARIABLE result ERROR_VARIABLE text OUTPUT_QUIET)
    string(REGEX REPLACE "[ \n]+" " " text "${text}") # as CMake wraps it
    expect("${text};${result}" "ffn_add_kernels.*${expected}" ";1$")
  endforeach()
endfunction()
