# ffn_library(NAME name PREFIX prefix SOURCES ... [PRIVATE libraries ...] [NEEDS libraries ...])
#
# Sources -> four targets, compiled once:
#   <name>_objects    the objects: everything hidden but what is marked FFN_API
#   <name>_internal   static, not installed, private names visible: what the rest of the project links
#   <name>            shared, exports <prefix>* alone
#   <name>_static     static, one object in which every other name is local, so that no private name of ours can clash
#                     with one of a user's program
# PRIVATE are internal libraries, taken into the shared and the static one as far as they are used; NEEDS are libraries
# of the system.

function(ffn_library)
  cmake_parse_arguments(arg "" "NAME;PREFIX" "SOURCES;PRIVATE;NEEDS" ${ARGN})

  add_library(${arg_NAME}_objects OBJECT ${arg_SOURCES})
  target_compile_definitions(${arg_NAME}_objects PRIVATE FFN_SHARED)
  target_link_libraries(${arg_NAME}_objects PRIVATE ffn_flags ${arg_PRIVATE} ${arg_NEEDS})

  add_library(${arg_NAME}_internal STATIC $<TARGET_OBJECTS:${arg_NAME}_objects>)
  target_link_libraries(${arg_NAME}_internal PUBLIC ${arg_PRIVATE} ${arg_NEEDS})

  set(exports ${PROJECT_BINARY_DIR}/${arg_NAME}.map)
  file(CONFIGURE OUTPUT ${exports} CONTENT "{ global: @arg_PREFIX@*; local: *; };\n" @ONLY)
  add_library(${arg_NAME} SHARED $<TARGET_OBJECTS:${arg_NAME}_objects>)
  target_link_libraries(${arg_NAME} PRIVATE ffn_flags ${arg_PRIVATE} ${arg_NEEDS})
  target_link_options(${arg_NAME} PRIVATE LINKER:--version-script=${exports} LINKER:--as-needed LINKER:-z,defs)
  set_target_properties(${arg_NAME} PROPERTIES LINK_DEPENDS ${exports})
  set_target_properties(${arg_NAME} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
  if(FFN_SANITIZE)
    target_link_options(${arg_NAME} PRIVATE LINKER:-z,undefs) # the sanitizer's run time comes with the program
  endif()

  set(archives)
  foreach(library IN LISTS arg_PRIVATE)
    list(APPEND archives $<TARGET_FILE:${library}>)
  endforeach()
  set(whole ${PROJECT_BINARY_DIR}/${arg_NAME}_static.o)
  add_custom_command(
    OUTPUT ${whole}
    COMMAND ${CMAKE_C_COMPILER} -r -nostdlib -o ${whole} $<TARGET_OBJECTS:${arg_NAME}_objects> ${archives}
    COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=${arg_PREFIX}* ${whole}
    DEPENDS $<TARGET_OBJECTS:${arg_NAME}_objects> ${arg_PRIVATE}
    COMMENT "Making the private names of lib${arg_NAME}.a local" COMMAND_EXPAND_LISTS VERBATIM)
  add_library(${arg_NAME}_static STATIC ${whole})
  set_source_files_properties(${whole} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  add_dependencies(${arg_NAME}_static ${arg_NAME}_objects ${arg_PRIVATE}) # Makefiles know no rule for their files
  set_target_properties(${arg_NAME}_static PROPERTIES OUTPUT_NAME ${arg_NAME} LINKER_LANGUAGE C)
  target_link_libraries(${arg_NAME}_static INTERFACE ${arg_NEEDS})
endfunction()
