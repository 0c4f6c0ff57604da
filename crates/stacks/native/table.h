/* The sockets of a host, by their addresses and by their names. Stacks that have no such tables of their own share it.
 *
 * A socket begins with an `entry`. */

#ifndef WARPLINE_TABLE_H
#define WARPLINE_TABLE_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

struct entry {
    /* The next in the tables by addresses and by names. */
    struct entry *next, *next_by_id;
    /* Its name. Names are not used again. */
    uint64_t id;
    /* Its addresses. Their byte order is the stack's choice. */
    uint32_t remote_ip;
    uint16_t remote_port, local_port;
};

struct table {
    struct entry **by_address, **by_id;
    uint64_t last_id;
};

/* Begins a table. Returns whether there is memory for it. */
int table_begin(struct table *table);
/* Frees a table, whose entries are gone. */
void table_end(struct table *table);
/* Calls `act` for each entry. It may take that entry out. */
void table_each(const struct table *table, void (*act)(struct entry *entry));
/* An entry by its addresses; or by its name. NULL if there is none. */
struct entry *table_find_address(const struct table *table, uint32_t remote_ip, uint16_t remote_port, uint16_t local_port);
struct entry *table_find(const struct table *table, uint64_t id);
/* Whether an entry has a local port. */
int table_has_port(const struct table *table, uint16_t local_port);
/* Gives an entry its name and its addresses, and puts it in. */
void table_add(struct table *table, struct entry *entry, uint32_t remote_ip, uint16_t remote_port, uint16_t local_port);
/* Takes an entry out. */
void table_remove(struct table *table, struct entry *entry);

#pragma GCC visibility pop

#endif
