# Sources of the generator -> a header with their hash, which every image carries: another generator's images are
# recognised. Everything below templates/, runtime/ and gen/ counts; the hash does not depend on where the tree lies.
# The same hash goes into the text file beside libffngen, with the LLVM below it: runtime/compiler_id.h reads it.
#   cmake -D SOURCE=<repository> -D OUTPUT=<header> -D ID=<text file> -D LLVM_VERSION=<version> -D LLVM_LIBRARY=<file>
#         -P GeneratorHash.cmake

cmake_minimum_required(VERSION 3.25)
file(GLOB files RELATIVE ${SOURCE} ${SOURCE}/templates/*.def ${SOURCE}/templates/header/*.in ${SOURCE}/runtime/*.[ch]
     ${SOURCE}/gen/*.[ch])
list(SORT files)
set(text)
foreach(file IN LISTS files)
  file(SHA256 ${SOURCE}/${file} hash)
  string(APPEND text "${file} ${hash}\n")
endforeach()
string(SHA256 hash "${text}")
file(WRITE ${OUTPUT} "#define FFNGEN_GENERATOR_HASH \"${hash}\"\n")
file(WRITE ${ID} "generator: ${hash}\nllvm: ${LLVM_VERSION}\nlibllvm: ${LLVM_LIBRARY}\n")
