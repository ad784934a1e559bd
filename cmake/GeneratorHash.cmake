# Sources of the generator -> a header with their hash, which every image carries: another generator's images are
# recognised. Everything below templates/, runtime/ and gen/ counts; the hash does not depend on where the tree lies.
#   cmake -D SOURCE=<repository> -D OUTPUT=<header> -P GeneratorHash.cmake

cmake_minimum_required(VERSION 3.25)
file(GLOB files RELATIVE ${SOURCE} ${SOURCE}/templates/*.def ${SOURCE}/runtime/*.[ch] ${SOURCE}/gen/*.[ch])
list(SORT files)
set(text)
foreach(file IN LISTS files)
  file(SHA256 ${SOURCE}/${file} hash)
  string(APPEND text "${file} ${hash}\n")
endforeach()
string(SHA256 hash "${text}")
file(WRITE ${OUTPUT} "#define FFNGEN_GENERATOR_HASH \"${hash}\"\n")
