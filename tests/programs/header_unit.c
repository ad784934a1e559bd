/* header_unit.c: the file of a program that holds the implementation of an emitted header, and nothing else */
#include HEADER
