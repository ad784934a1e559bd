/* identity.h: what names this library's images in the disk store */
#ifndef FFNGEN_IDENTITY_H
#define FFNGEN_IDENTITY_H

/* One line, static; NULL where the file of libLLVM cannot be told. */
const char *identity_line(void);

#endif
