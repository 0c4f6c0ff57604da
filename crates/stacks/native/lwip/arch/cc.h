/* What lwIP asks of a compiler: nothing that it has not by itself. */
