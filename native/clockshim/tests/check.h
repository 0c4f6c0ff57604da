/* The assertion of the shim's tests in C. */
#ifndef CLOCKSHIM_CHECK_H
#define CLOCKSHIM_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                     \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);    \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

#endif
