# tests/test_<subject>.c -> one executable and one ctest entry each, label "suite"; tests/support_*.c -> what they share.
# Then the checks of the tree itself (label "tree") and of an installed one (label "install").

pkg_check_modules(criterion REQUIRED IMPORTED_TARGET criterion)
pkg_check_modules(mpfr REQUIRED IMPORTED_TARGET mpfr)

file(GLOB support_sources CONFIGURE_DEPENDS tests/support_*.c)
add_library(test_support STATIC ${support_sources})
target_include_directories(test_support PUBLIC tests)
target_link_libraries(test_support PUBLIC ffncommand PkgConfig::criterion PkgConfig::mpfr m PRIVATE ffn_flags)

# GNU ld takes 1.5 s for each of these suites (the symbols of LLVM and OpenBLAS), gold 0.2 s.
include(CheckLinkerFlag)
check_linker_flag(C -fuse-ld=gold FFN_HAS_GOLD)
set(test_linker $<$<BOOL:${FFN_HAS_GOLD}>:-fuse-ld=gold>)

# Kernels that tests keep stay in the build folder; what the user has tuned and measured is not theirs.
set(test_environment XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/cache XDG_CONFIG_HOME=${PROJECT_BINARY_DIR}/config)
if(FFN_SANITIZE MATCHES "address")
  list(APPEND test_environment
       LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0)
endif()

set(suite_timeout 1200)
set(suites_left_out)
if(FFN_SANITIZE)
  set(suite_timeout 1500)
  # Numbers of generated code, which no sanitizer sees into, and what takes minutes there.
  set(suites_left_out activations bits calibrate codegen command command_activations command_emit command_tune edges
                      emit_assembly emit_formula emit_header emit_refusals fast float_state formula_reference peers
                      plan_bits shapes softfma suite tune_worker verify)
endif()
set(runner) # Criterion's own, but where it cannot start
if(FFN_SANITIZE MATCHES "thread")
  set(runner tests/in_process.c)
endif()
file(GLOB test_sources CONFIGURE_DEPENDS tests/test_*.c)
foreach(source IN LISTS test_sources)
  cmake_path(GET source STEM name)
  string(REGEX REPLACE "^test_" "" subject ${name})
  if(subject IN_LIST suites_left_out)
    continue()
  endif()
  add_executable(${name} ${source} ${runner})
  target_compile_definitions(${name} PRIVATE FFN_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                             FFN_COMMAND="$<TARGET_FILE:ffngen_command>")
  target_link_libraries(${name} PRIVATE ffn_flags test_support)
  target_link_options(${name} PRIVATE ${test_linker} LINKER:--as-needed) # a suite of the runtime loads neither LLVM nor OpenBLAS
  add_dependencies(${name} ffngen_command)
  add_test(NAME ${subject} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${subject} PROPERTIES LABELS suite TIMEOUT ${suite_timeout} ENVIRONMENT "${test_environment}")
endforeach()

# Allocations and mappings that this suite can refuse.
foreach(function malloc calloc realloc aligned_alloc strdup realpath asprintf vasprintf free mmap munmap mprotect)
  target_link_options(test_failure PRIVATE LINKER:--wrap=${function})
endforeach()

# Suites that use more where it is there: OpenMP (whose run time the thread sanitizer does not know), pthreadpool.
find_package(OpenMP QUIET COMPONENTS C)
if(OpenMP_C_FOUND AND NOT FFN_SANITIZE)
  target_link_libraries(test_threads PRIVATE OpenMP::OpenMP_C)
endif()
if(TARGET ffnpool_internal)
  target_compile_definitions(test_pool PRIVATE FFN_POOL)
  target_link_libraries(test_pool PRIVATE ffnpool_internal)
endif()

# ---- Programs that suites run: libffn inside, libffngen loaded from beside them ----

set(fakes tests/programs/fake_llvm.c)
set(mallocs tests/programs/failing_malloc.c)
foreach(kind "" _fakes _mallocs _fakes_mallocs)
  set(host compiler_host${kind})
  add_executable(${host} tests/programs/compiler_host.c)
  string(REGEX MATCHALL "[a-z]+" parts "${kind}")
  foreach(part IN LISTS parts)
    target_sources(${host} PRIVATE ${${part}})
  endforeach()
  set_target_properties(${host} PROPERTIES ENABLE_EXPORTS ON C_VISIBILITY_PRESET default)
  target_include_directories(${host} PRIVATE runtime)
  target_link_libraries(${host} PRIVATE ffn_flags ffn_internal)
  add_dependencies(${host} ffn ffngen)
  add_dependencies(test_compiler ${host})
  add_dependencies(test_compiler_files ${host})
endforeach()
if(NOT FFN_SANITIZE)
  include(CheckCSourceCompiles)
  set(CMAKE_REQUIRED_LINK_OPTIONS -static)
  check_c_source_compiles("int main(void) { return 0; }" FFN_CAN_LINK_STATICALLY)
  unset(CMAKE_REQUIRED_LINK_OPTIONS)
  if(FFN_CAN_LINK_STATICALLY)
    add_executable(compiler_host_static tests/programs/compiler_host.c)
    target_include_directories(compiler_host_static PRIVATE runtime)
    target_link_libraries(compiler_host_static PRIVATE ffn_flags ffn_internal)
    target_link_options(compiler_host_static PRIVATE -static)
    add_dependencies(test_compiler_files compiler_host_static)
  endif()
endif()
foreach(kind told untold)
  string(TOUPPER ${kind} define)
  add_library(version_${kind} MODULE tests/programs/other_version.c)
  set_target_properties(version_${kind} PROPERTIES C_VISIBILITY_PRESET default)
  target_compile_definitions(version_${kind} PRIVATE ${define})
  target_include_directories(version_${kind} PRIVATE runtime)
  target_link_libraries(version_${kind} PRIVATE ffn_flags)
  add_dependencies(test_compiler version_${kind})
  add_dependencies(test_compiler_files version_${kind})
endforeach()

add_executable(warm_start tests/programs/warm_start.c)
target_include_directories(warm_start PRIVATE runtime)
target_link_libraries(warm_start PRIVATE ffn_flags ffn_internal)
add_dependencies(warm_start ffngen)
add_dependencies(test_warm warm_start)

# Peers of `ffngen bench` that are wrong, or of another tree.
foreach(kind blis onednn)
  add_library(fake_peer_${kind} MODULE tests/programs/fake_peer.c)
  set_target_properties(fake_peer_${kind} PROPERTIES PREFIX "" OUTPUT_NAME ffngen_peer_${kind}
                                                     LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fake_peers)
  target_include_directories(fake_peer_${kind} PRIVATE bench runtime)
  target_link_libraries(fake_peer_${kind} PRIVATE ffn_flags)
  if(TARGET test_peers)
    add_dependencies(test_peers fake_peer_${kind})
  endif()
endforeach()
target_compile_definitions(fake_peer_onednn PRIVATE FAKE_INTERFACE=0)

# An OpenBLAS that is wrong, to be preloaded.
add_library(wrong_blas MODULE tests/programs/wrong_blas.c)
set_target_properties(wrong_blas PROPERTIES C_VISIBILITY_PRESET default)
target_link_libraries(wrong_blas PRIVATE ffn_flags)
target_include_directories(wrong_blas PRIVATE ${OpenBLASC_INCLUDE_DIR})
target_compile_definitions(test_wrong_blas PRIVATE WRONG_BLAS_LIBRARY="$<TARGET_FILE:wrong_blas>")
add_dependencies(test_wrong_blas wrong_blas)

# ---- Kernels of another machine, run; generators that are wrong, found out ----

add_executable(neon_images tests/programs/neon_images.c)
target_link_libraries(neon_images PRIVATE ffn_flags test_support)
target_link_options(neon_images PRIVATE LINKER:--as-needed)
add_test(NAME aarch64 COMMAND ${PROJECT_SOURCE_DIR}/tests/aarch64.sh $<TARGET_FILE:ffngen_command>
                              $<TARGET_FILE:neon_images> ${CMAKE_COMMAND})
set_tests_properties(aarch64 PROPERTIES LABELS cross SKIP_RETURN_CODE 77 TIMEOUT 900)
add_executable(same_bits tests/programs/same_bits.c)
target_link_libraries(same_bits PRIVATE ffn_flags test_support)
target_link_options(same_bits PRIVATE LINKER:--as-needed)
add_test(NAME same_bits COMMAND ${PROJECT_SOURCE_DIR}/tests/same_bits.sh $<TARGET_FILE:ffngen_command>
                                $<TARGET_FILE:same_bits> ${CMAKE_COMMAND})
set_tests_properties(same_bits PROPERTIES LABELS cross SKIP_RETURN_CODE 77 TIMEOUT 900)
if(NOT FFN_SANITIZE)
  list(JOIN criterion_LINK_LIBRARIES ":" suite_libraries)
  list(JOIN mpfr_LINK_LIBRARIES ":" mpfr_libraries)
  string(APPEND suite_libraries ":${mpfr_libraries}")
  set(llvm_folders $<TARGET_PROPERTY:LibLLVM::LibLLVM,INTERFACE_INCLUDE_DIRECTORIES>)
  add_test(NAME generator_mutants
           COMMAND ${PROJECT_SOURCE_DIR}/tests/generator_mutants.sh ${CMAKE_C_COMPILER}
                   ${PROJECT_SOURCE_DIR}/runtime:$<JOIN:${llvm_folders},:>:
                   $<TARGET_FILE:test_support>:${suite_libraries}:
                   $<TARGET_OBJECTS:ffngen_command>
                   $<TARGET_FILE:ffncommand> $<TARGET_FILE:ffngen_internal> $<TARGET_FILE:ffn_internal>
                   $<TARGET_FILE:ffnblas_internal> $<TARGET_PROPERTY:LibLLVM::LibLLVM,IMPORTED_LOCATION>
                   ${OpenBLASC_LIBRARY} ${cjson_LINK_LIBRARIES} -lm -lpthread
           COMMAND_EXPAND_LISTS)
  set_tests_properties(generator_mutants PROPERTIES LABELS mutants SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()

# ---- Random kernels, data and calls; scripts/fuzz_kernels.sh for longer ----

add_executable(fuzz_kernels tests/programs/fuzz_kernels.c tests/programs/fuzz_kernels_calls.c
                            tests/programs/fuzz_kernels_case.c tests/programs/fuzz_kernels_data.c
                            tests/programs/fuzz_kernels_draw.c tests/programs/fuzz_kernels_refused.c)
target_link_libraries(fuzz_kernels PRIVATE ffn_flags test_support)
target_link_options(fuzz_kernels PRIVATE LINKER:--as-needed)
set(fuzz_cases 6000)
if(FFN_SANITIZE)
  set(fuzz_cases 3000)
endif()
add_test(NAME fuzz_kernels COMMAND fuzz_kernels --seeds ${PROJECT_SOURCE_DIR}/tests/fuzz/kernel_seeds.txt --seed 1
                                   --cases ${fuzz_cases})
set_tests_properties(fuzz_kernels PROPERTIES LABELS suite TIMEOUT 300 ENVIRONMENT "${test_environment}")

# ---- Every activation over all 2^32 floats: scripts/exhaustive_activations.sh runs it ----

add_library(exhaustive_reference OBJECT tests/programs/exhaustive_reference.c)
target_compile_options(exhaustive_reference PRIVATE -O3 -ffast-math -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                                    $<$<BOOL:${FFN_WERROR}>:-Werror>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(exhaustive_reference PRIVATE -mavx2 -mfma)
endif()
add_executable(exhaustive_activations tests/programs/exhaustive_activations.c tests/programs/exhaustive_sweep.c
                                      $<TARGET_OBJECTS:exhaustive_reference>)
target_link_libraries(exhaustive_activations PRIVATE ffn_flags test_support Threads::Threads)
target_link_options(exhaustive_activations PRIVATE LINKER:--as-needed)

# ---- The tree itself ----

add_test(NAME arrows COMMAND ${PROJECT_SOURCE_DIR}/scripts/check_arrows.sh)
add_test(NAME arrows_catches COMMAND ${PROJECT_SOURCE_DIR}/tests/check_arrows_catches.sh)
add_test(NAME format COMMAND ${PROJECT_SOURCE_DIR}/scripts/check_format.sh)
set_tests_properties(arrows arrows_catches format PROPERTIES LABELS tree SKIP_RETURN_CODE 77)

# ---- An installed tree; a sanitizer's libraries are not for installing ----

if(NOT FFN_SANITIZE)
  foreach(step tree cmake pkgconfig symbols needed)
    add_test(NAME install_${step}
             COMMAND ${CMAKE_COMMAND} -D STEP=${step} -D BUILD=${PROJECT_BINARY_DIR} -D SOURCE=${PROJECT_SOURCE_DIR}
                     -D GENERATOR=${CMAKE_GENERATOR} -D C_COMPILER=${CMAKE_C_COMPILER} -D NM=${CMAKE_NM}
                     -D READELF=${CMAKE_READELF} -P ${PROJECT_SOURCE_DIR}/tests/install.cmake)
    set_tests_properties(install_${step} PROPERTIES LABELS install FIXTURES_REQUIRED installed_tree TIMEOUT 300)
  endforeach()
  set_tests_properties(install_tree PROPERTIES FIXTURES_REQUIRED "" FIXTURES_SETUP installed_tree)
endif()

# ---- The other presets, each a whole build and test run of its own ----

if(FFN_TEST_PRESETS)
  foreach(preset clang asan-ubsan tsan)
    add_test(NAME preset_${preset} COMMAND ${PROJECT_SOURCE_DIR}/scripts/test_preset.sh ${preset})
    set_tests_properties(preset_${preset} PROPERTIES LABELS preset TIMEOUT 1200 RUN_SERIAL ON)
  endforeach()
  set_tests_properties(preset_clang PROPERTIES FIXTURES_SETUP clang_build)
  add_test(NAME same_emission COMMAND ${PROJECT_SOURCE_DIR}/tests/same_emission.sh $<TARGET_FILE:ffngen_command>
                                      ${PROJECT_SOURCE_DIR}/build/clang/ffngen)
  set_tests_properties(same_emission PROPERTIES LABELS preset FIXTURES_REQUIRED clang_build)
endif()

# ---- examples/*.c, each a program over the public API alone; engine links libffn alone, aot links nothing ----

add_test(NAME example_aot COMMAND ${PROJECT_SOURCE_DIR}/tests/example_aot.sh $<TARGET_FILE:ffngen_command>)
set_tests_properties(example_aot PROPERTIES LABELS example SKIP_RETURN_CODE 77 TIMEOUT 300)
file(GLOB example_sources CONFIGURE_DEPENDS examples/*.c)
list(REMOVE_ITEM example_sources ${PROJECT_SOURCE_DIR}/examples/aot.c)
foreach(source IN LISTS example_sources)
  cmake_path(GET source STEM name)
  add_executable(example_${name} ${source})
  set_target_properties(example_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY examples)
  if(name STREQUAL engine)
    target_link_libraries(example_engine PRIVATE ffn_flags ffn::ffn Threads::Threads m)
    add_dependencies(example_engine ffngen) # which is loaded on demand
  else()
    target_link_libraries(example_${name} PRIVATE ffn_flags ffn::ffngen)
  endif()
  add_test(NAME example_${name} COMMAND example_${name} WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/examples)
  set_tests_properties(example_${name} PROPERTIES LABELS example TIMEOUT 300 ENVIRONMENT "${test_environment}")
endforeach()

include(TestsHeader)
