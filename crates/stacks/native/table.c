/* The sockets of a host, by their addresses and by their names (table.h). */

#include "table.h"

#include <stddef.h>
#include <stdlib.h>

/* Buckets of each table: a power of 2. */
#define BUCKETS 64

int table_begin(struct table *table)
{
    table->by_address = calloc(2 * BUCKETS, sizeof *table->by_address);
    if (table->by_address == NULL)
        return 0;
    table->by_id = table->by_address + BUCKETS;
    return 1;
}

void table_end(struct table *table)
{
    free(table->by_address);
    table->by_address = table->by_id = NULL;
}

void table_each(const struct table *table, void (*act)(struct entry *entry))
{
    struct entry *entry, *next;
    for (int i = 0; table->by_address != NULL && i < BUCKETS; i++)
        for (entry = table->by_address[i]; entry != NULL; entry = next) {
            next = entry->next;
            act(entry);
        }
}

static struct entry **of_address(const struct table *table, uint32_t remote_ip, uint16_t remote_port, uint16_t local_port)
{
    const uint32_t mixed = (remote_ip ^ (uint32_t)remote_port << 16 ^ local_port) * 2654435761u;
    return &table->by_address[mixed >> 16 & (BUCKETS - 1)];
}

static struct entry **of_id(const struct table *table, uint64_t id)
{
    return &table->by_id[id & (BUCKETS - 1)];
}

struct entry *table_find_address(const struct table *table, uint32_t remote_ip, uint16_t remote_port, uint16_t local_port)
{
    struct entry *entry = *of_address(table, remote_ip, remote_port, local_port);
    while (entry != NULL && (entry->remote_ip != remote_ip || entry->remote_port != remote_port || entry->local_port != local_port))
        entry = entry->next;
    return entry;
}

struct entry *table_find(const struct table *table, uint64_t id)
{
    struct entry *entry = *of_id(table, id);
    while (entry != NULL && entry->id != id)
        entry = entry->next_by_id;
    return entry;
}

int table_has_port(const struct table *table, uint16_t local_port)
{
    for (int i = 0; i < BUCKETS; i++)
        for (const struct entry *entry = table->by_address[i]; entry != NULL; entry = entry->next)
            if (entry->local_port == local_port)
                return 1;
    return 0;
}

void table_add(struct table *table, struct entry *entry, uint32_t remote_ip, uint16_t remote_port, uint16_t local_port)
{
    struct entry **place = of_address(table, remote_ip, remote_port, local_port);
    entry->remote_ip = remote_ip;
    entry->remote_port = remote_port;
    entry->local_port = local_port;
    entry->next = *place;
    *place = entry;
    entry->id = ++table->last_id;
    place = of_id(table, entry->id);
    entry->next_by_id = *place;
    *place = entry;
}

void table_remove(struct table *table, struct entry *entry)
{
    struct entry **place = of_address(table, entry->remote_ip, entry->remote_port, entry->local_port);
    while (*place != entry)
        place = &(*place)->next;
    *place = entry->next;
    place = of_id(table, entry->id);
    while (*place != entry)
        place = &(*place)->next_by_id;
    *place = entry->next_by_id;
}
