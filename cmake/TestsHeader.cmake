# Emitted headers as their users meet them: compilers, languages, linkers, CPUs (label "header"; each entry is a script),
# ffn_add_kernels in a project of its own (label "install"), and the speed of a header (bench_header).

add_executable(header_expect tests/programs/header_expect.c)
target_include_directories(header_expect PRIVATE runtime)
target_link_libraries(header_expect PRIVATE ffn_flags ffn_internal)
add_dependencies(header_expect ffngen) # which is loaded, not linked

if(NOT FFN_SANITIZE)
  foreach(name builds objects errors cpus same size)
    add_test(NAME header_${name} COMMAND ${PROJECT_SOURCE_DIR}/tests/header_${name}.sh $<TARGET_FILE:ffngen_command>
                                         $<TARGET_FILE:header_expect>)
    set_tests_properties(header_${name} PROPERTIES LABELS header SKIP_RETURN_CODE 77 TIMEOUT 600)
  endforeach()

  foreach(step kernels kernels_cross kernels_subdirectory kernels_errors)
    add_test(NAME install_${step}
             COMMAND ${CMAKE_COMMAND} -D STEP=${step} -D BUILD=${PROJECT_BINARY_DIR} -D SOURCE=${PROJECT_SOURCE_DIR}
                     -D GENERATOR=${CMAKE_GENERATOR} -D C_COMPILER=${CMAKE_C_COMPILER}
                     -P ${PROJECT_SOURCE_DIR}/tests/install.cmake)
    set_tests_properties(install_${step} PROPERTIES LABELS install FIXTURES_REQUIRED installed_tree TIMEOUT 300
                                                    SKIP_REGULAR_EXPRESSION "SKIPPED:")
  endforeach()
  # These two share the installed command, which one of them touches.
  set_tests_properties(install_kernels install_kernels_cross PROPERTIES RESOURCE_LOCK installed_command)
endif()

# ---- Not built unless asked for: its kernels take seconds to generate ----

ffn_add_kernels(bench_layer SPECS d768-f3072-gelu-bias)
add_executable(bench_header bench/programs/header.c)
target_link_libraries(bench_header PRIVATE ffn_flags ffn::ffn bench_layer)
add_dependencies(bench_header ffngen) # loaded, not linked
set_target_properties(bench_layer bench_header PROPERTIES EXCLUDE_FROM_ALL ON)
