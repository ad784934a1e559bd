# templates/header/*.in -> a C file with the table of gen/emit_template.h, so that the command needs no file but itself.
#   cmake -D SOURCE=<repository> -D OUTPUT=<file.c> -P EmbedTemplates.cmake

cmake_minimum_required(VERSION 3.25)
file(GLOB files ${SOURCE}/templates/header/*.in)
list(SORT files)
set(arrays)
set(rows)
set(number 0)
foreach(file IN LISTS files)
  cmake_path(GET file FILENAME name)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "(................................................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "static const char file_${number}[] = {\n${bytes}0};\n")
  string(APPEND rows "    {\"${name}\", file_${number}, sizeof file_${number} - 1},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUTPUT} "#include \"emit_template.h\"\n\n${arrays}\n"
                     "const template_file template_files[] = {\n${rows}};\n"
                     "const size_t template_file_count = ${number};\n")
