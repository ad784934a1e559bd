# What every source of the project is compiled with -> interface target ffn_flags.
#
# The numeric contract forbids anything that lets a compiler change a rounding, so unsafe flags stop the configuration.

string(TOUPPER "${CMAKE_BUILD_TYPE}" _type)
set(_all_flags "${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${_type}}")
foreach(_flag -ffast-math -Ofast -funsafe-math-optimizations -fassociative-math -freciprocal-math
              -ffinite-math-only -fno-signed-zeros -ffp-contract=fast)
  if(" ${_all_flags} " MATCHES "[ ]${_flag}[ ]")
    message(FATAL_ERROR "${_flag} is among the C flags: results must have the same bits everywhere, so it is refused. "
                        "Take it out of CFLAGS or CMAKE_C_FLAGS.")
  endif()
endforeach()

add_library(ffn_flags INTERFACE)
target_compile_features(ffn_flags INTERFACE c_std_17)
# Warnings are errors in the presets.
target_compile_options(ffn_flags INTERFACE -ffp-contract=off -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                           $<$<BOOL:${FFN_WERROR}>:-Werror>)
if(FFN_SANITIZE)
  target_compile_options(ffn_flags INTERFACE -fsanitize=${FFN_SANITIZE} -fno-sanitize-recover=all
                                             -fno-omit-frame-pointer)
  target_link_options(ffn_flags INTERFACE -fsanitize=${FFN_SANITIZE})
endif()
