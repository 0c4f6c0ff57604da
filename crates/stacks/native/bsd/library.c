/* A copy of libslirp of our own, whose calls to the system are answered by us.
 *
 * libslirp is made to forward connections to sockets of the machine that it runs on. Here there must be no such sockets: they would depend on the
 * machine's kernel, and packets of a simulation could leave it. So we load a copy of the library's file, as it is, and write into its table of
 * imported functions (the "global offset table" of ELF) the addresses of our own `socket`, `recv` and so on (sockets.c). It is a copy since the table
 * belongs to a loaded object: whoever else uses libslirp in this process keeps the system's. A copy has its own variables, too, and libslirp keeps its
 * time in one: runs in several threads each have their own. */

#define _GNU_SOURCE

#include "library.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The number of a symbol in a relocation. */
#if __SIZEOF_POINTER__ == 8
#define SYMBOL_OF ELF64_R_SYM
#else
#define SYMBOL_OF ELF32_R_SYM
#endif

struct library library;

static void *object;
/* The copy's file. It must stay open: the loader takes a file with the same name for the same object. */
static int file = -1;

/* A copy in memory of a file. -1 if there is none. */
static int copy(const char *path)
{
    char block[65536];
    ssize_t len = -1;
    int from = open(path, O_RDONLY | O_CLOEXEC), to = memfd_create("libslirp", MFD_CLOEXEC);
    if (from >= 0 && to >= 0)
        while ((len = read(from, block, sizeof block)) > 0)
            if (write(to, block, (size_t)len) != len)
                break;
    if (from >= 0)
        close(from);
    if (len != 0 && to >= 0) {
        close(to);
        to = -1;
    }
    return to;
}

/* Writes an entry of the table, which may have been made read-only. */
static int put(uintptr_t place, void *function)
{
    uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), page = place / size * size;
    if (mprotect((void *)page, size, PROT_READ | PROT_WRITE) != 0)
        return 0;
    memcpy((void *)place, &function, sizeof function);
    return 1;
}

/* Replaces a function in all entries of a table of relocations. Returns in how many. */
static int replace_in(const struct link_map *map, const ElfW(Rela) *entries, size_t size, const ElfW(Sym) *symbols, const char *names,
                      const struct replacement *replacement)
{
    int count = 0;
    for (size_t i = 0; entries != NULL && i < size / sizeof *entries; i++) {
        const ElfW(Sym) *symbol = &symbols[SYMBOL_OF(entries[i].r_info)];
        if (SYMBOL_OF(entries[i].r_info) == 0 || symbol->st_shndx != SHN_UNDEF || strcmp(names + symbol->st_name, replacement->name) != 0)
            continue;
        if (!put(map->l_addr + entries[i].r_offset, replacement->function))
            return 0;
        count++;
    }
    return count;
}

/* Replaces all that is to be replaced. Returns the name of what cannot be; NULL if there is none. */
static const char *replace(const struct link_map *map)
{
    const ElfW(Rela) *plain = NULL, *calls = NULL;
    const ElfW(Sym) *symbols = NULL;
    const char *names = NULL;
    size_t plain_size = 0, calls_size = 0;
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        /* Most loaders have put the address there; else it is relative to the object. */
        const char *at = (const char *)(entry->d_un.d_ptr < map->l_addr ? map->l_addr + entry->d_un.d_ptr : entry->d_un.d_ptr);
        switch (entry->d_tag) {
        case DT_RELA:
            plain = (const void *)at;
            break;
        case DT_RELASZ:
            plain_size = entry->d_un.d_val;
            break;
        case DT_JMPREL:
            calls = (const void *)at;
            break;
        case DT_PLTRELSZ:
            calls_size = entry->d_un.d_val;
            break;
        case DT_SYMTAB:
            symbols = (const void *)at;
            break;
        case DT_STRTAB:
            names = at;
            break;
        }
    }
    if (symbols == NULL || names == NULL)
        return "everything";
    for (const struct replacement *each = replacements; each->function != NULL; each++) {
        int count = replace_in(map, plain, plain_size, symbols, names, each) + replace_in(map, calls, calls_size, symbols, names, each);
        if (count == 0 && each->is_required)
            return each->name;
    }
    return NULL;
}

__attribute__((constructor)) static void load(void)
{
    static char why[200];
    Dl_info about;
    char path[64];
    struct link_map *map;
    const char *missing;
    library.why = why;
    if (dladdr((void *)(uintptr_t)slirp_version_string, &about) == 0) {
        snprintf(why, sizeof why, "the loader does not know where libslirp is");
        return;
    }
    file = copy(about.dli_fname);
    if (file < 0) {
        snprintf(why, sizeof why, "%.150s cannot be copied", about.dli_fname);
        return;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (object == NULL || dlinfo(object, RTLD_DI_LINKMAP, &map) != 0) {
        snprintf(why, sizeof why, "a copy of libslirp cannot be loaded: %.120s", dlerror());
        return;
    }
    missing = replace(map);
    if (missing != NULL) {
        snprintf(why, sizeof why, "libslirp %.20s does not take `%.40s` from the system, as those that we know do", slirp_version_string(), missing);
        return;
    }
#define LIBRARY_CALL(name) \
    *(void **)&library.name = dlsym(object, "slirp_" #name); \
    if (library.name == NULL) { \
        snprintf(why, sizeof why, "libslirp %.20s has no function slirp_" #name, slirp_version_string()); \
        return; \
    }
    LIBRARY_CALLS(LIBRARY_CALL)
#undef LIBRARY_CALL
    library.why = NULL;
}

__attribute__((destructor)) static void unload(void)
{
    if (object != NULL)
        dlclose(object);
    if (file >= 0)
        close(file);
}
