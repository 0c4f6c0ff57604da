//! Makes many of one: a shared object that was written for one instance gets as many as there are hosts.
//!
//! All that an instance is lies in the object's writable memory (its `.data` and `.bss`) and in what it has allocated. The writable memory is ours:
//! each instance has its own, which is put in place before the instance runs. There are three ways to do that ([`Way`]); what is best depends on the
//! size, and `cargo bench --package warpline-stacks` measures it. The Network Simulation Cradle (Jansen and McGregor, 2005) did the same by rewriting the source of
//! the stacks; here the object stays as it is.
//!
//! An object is loaded once for each run, from a copy in memory: runs in several threads of a process do not meet in it. One that keeps its instances
//! apart by itself is loaded once for the process, and is used by several threads at a time. What is outside of its
//! writable memory is not an instance's own: an object with thread-local variables is refused. So is one whose copies the loader would mix up.

use std::cell::RefCell;
use std::ffi::{CString, c_void};
use std::fs::File;
use std::io::Write;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use nix::libc;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap};
use object::elf::{
    DF_1_NODELETE, DT_FLAGS_1, PF_W, PT_GNU_RELRO, PT_LOAD, PT_TLS, SHN_UNDEF, STB_GNU_UNIQUE,
};
use object::read::elf::{Dyn as _, ElfFile64, ProgramHeader as _};

/// Size of a page.
const PAGE: usize = 4096;
/// Up to so many bytes of variables are copied: 48 ns for 800 bytes, 440 ns for 8000.
const SWAPPED: usize = 4 << 10;
/// Up to so many bytes of a file, each instance has an object of its own, as that costs 30 ns for each change of the instance. For larger ones,
/// mapping costs memory for the variables only, and 6 to 18 us for each change.
const LOADED: usize = 4 << 20;

/// How the memory of an instance is put in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It is copied out and in: best for few variables.
    Swap,
    /// The pages of the instance are mapped there: best for many variables in a large object.
    Map,
    /// Each instance has an object of its own, which is always in place: the fastest, with memory for the code of each.
    Object,
    /// Nothing is done: the object keeps its instances apart by itself, and threads, too.
    Own,
}

impl Way {
    /// The best way for so many bytes of variables in a file of this size.
    fn of_size(variables: usize, file: usize) -> Way {
        match (variables, file) {
            (..=SWAPPED, _) => Way::Swap,
            (_, ..=LOADED) => Way::Object,
            _ => Way::Map,
        }
    }
}

/// Why an object cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is no shared object, or not one that can have instances.
    #[error("{path}: {why}")]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// There is no memory for another instance.
    #[error("no memory for another instance: {0}")]
    Memory(#[from] nix::errno::Errno),
}

/// The part of an object that is written to, by its addresses in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Writable {
    start: usize,
    len: usize,
}

/// Finds the part of an object that is written to after it was loaded.
///
/// # Errors
/// If copies of the object would not have all of it for themselves.
fn writable(bytes: &[u8]) -> Result<Writable, String> {
    let file: ElfFile64<'_> =
        ElfFile64::parse(bytes).map_err(|error| format!("not a shared object of this machine: {error}"))?;
    let endian = file.endian();
    // A compiler for C++ marks variables of templates and inline functions so. glibc gives all copies those of the first.
    let mut symbols = file.elf_dynamic_symbol_table().iter();
    if symbols.any(|one| one.st_bind() == STB_GNU_UNIQUE && one.st_shndx.get(endian) != SHN_UNDEF) {
        return Err("it has variables that all copies of it share: build it with -fno-gnu-unique".to_owned());
    }
    let (mut start, mut end, mut relro) = (usize::MAX, 0, 0);
    for header in file.elf_program_headers() {
        let entries = header.dynamic(endian, bytes).map_err(|error| error.to_string())?.unwrap_or_default();
        for entry in entries.iter().filter(|entry| entry.tag32(endian) == Some(DT_FLAGS_1)) {
            // A later copy can have the name of one that was let go, and the loader would take it for that one.
            if entry.d_val(endian) & u64::from(DF_1_NODELETE) != 0 {
                return Err("it stays in memory for ever: build it without -z nodelete".to_owned());
            }
        }
        let (from, len) = (header.p_vaddr(endian) as usize, header.p_memsz(endian) as usize);
        match header.p_type(endian) {
            PT_TLS => return Err("it has thread-local variables, which instances would share".to_owned()),
            PT_LOAD if header.p_flags(endian) & PF_W != 0 => {
                (start, end) = (start.min(from), end.max(from + len));
            }
            // Made read-only by the loader, to whole pages.
            PT_GNU_RELRO => relro = (from + len).next_multiple_of(PAGE),
            _ => {}
        }
    }
    let start = start.max(relro).min(end);
    Ok(Writable { start, len: end - start })
}

/// A shared object in memory.
#[derive(Debug)]
struct Loaded {
    library: libloading::Library,
    /// Where its addresses begin.
    base: usize,
    /// Its copy in memory, which must stay open: the loader takes a file with the same name for the same object. None if it is the file itself, of
    /// which a process has one object.
    _copy: Option<OwnedFd>,
}

fn in_memory(bytes: &[u8]) -> nix::Result<OwnedFd> {
    let file = memfd_create(c"warpline-stack", MFdFlags::MFD_CLOEXEC)?;
    File::from(file.try_clone().map_err(|_| nix::errno::Errno::EMFILE)?)
        .write_all(bytes)
        .map_err(|_| nix::errno::Errno::ENOMEM)?;
    Ok(file)
}

impl Loaded {
    /// Loads a copy of a file.
    fn copy(bytes: &[u8], symbol: &str) -> Result<Loaded, String> {
        let copy = in_memory(bytes).map_err(|error| error.to_string())?;
        let path = format!("/proc/self/fd/{}", copy.as_raw_fd());
        Ok(Loaded { _copy: Some(copy), ..Loaded::file(Path::new(&path), symbol)? })
    }

    /// Loads a file.
    fn file(path: &Path, symbol: &str) -> Result<Loaded, String> {
        // SAFETY: its initialisers run. A stack is code that the user has chosen to run in this process.
        let library = unsafe { libloading::Library::new(path) }.map_err(|error| error.to_string())?;
        let name = CString::new(symbol).map_err(|error| error.to_string())?;
        // SAFETY: only the address is used.
        let place = unsafe { library.get::<*const c_void>(name.as_bytes_with_nul()) }
            .map_err(|_| format!("it has no function `{symbol}`"))?;
        let mut about = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
        // SAFETY: `dladdr` fills the structure if it does not return 0.
        let base = unsafe {
            let address: *const c_void = *place;
            if libc::dladdr(address, about.as_mut_ptr()) == 0 {
                return Err("the loader does not know where it is".to_owned());
            }
            about.assume_init().dli_fbase as usize
        };
        Ok(Loaded { library, base, _copy: None })
    }
}

/// The memory of an instance while it is not in place.
#[derive(Debug)]
enum Memory {
    Copy(Vec<u8>),
    Pages(OwnedFd),
    Own(Loaded),
    None,
}

/// What changes.
#[derive(Debug)]
struct State {
    instances: Vec<Memory>,
    /// The instance that is in place.
    current: Option<usize>,
}

/// A shared object and the memory of its instances.
#[derive(Debug)]
pub struct Object {
    path: PathBuf,
    bytes: Vec<u8>,
    symbol: &'static str,
    way: Way,
    writable: Writable,
    loaded: Loaded,
    /// The writable memory as the loader left it.
    pristine: Vec<u8>,
    state: RefCell<State>,
}

impl Object {
    /// Loads a file. It must have the function `symbol`. `way` is how its instances are kept apart; none for the best.
    ///
    /// # Errors
    /// If it cannot be read or loaded, or cannot have instances.
    pub fn load(path: &Path, symbol: &'static str, way: Option<Way>) -> Result<Rc<Object>, ObjectError> {
        let read = |source| ObjectError::Read { path: path.to_owned(), source };
        let unfit = |why| ObjectError::Unfit { path: path.to_owned(), why };
        let bytes = std::fs::read(path).map_err(read)?;
        let own = way == Some(Way::Own);
        let writable = match own {
            true => Writable { start: 0, len: 0 },
            false => writable(&bytes).map_err(unfit)?,
        };
        let loaded = match own {
            true => Loaded::file(&std::path::absolute(path).map_err(read)?, symbol),
            false => Loaded::copy(&bytes, symbol),
        };
        let loaded = loaded.map_err(unfit)?;
        let way = way.unwrap_or_else(|| Way::of_size(writable.len, bytes.len()));
        let mut object = Object {
            path: path.to_owned(),
            bytes,
            symbol,
            way,
            writable,
            loaded,
            pristine: Vec::new(),
            state: RefCell::new(State { instances: Vec::new(), current: None }),
        };
        // SAFETY: nothing of the object runs now.
        object.pristine = unsafe { object.memory() }.to_vec();
        if way != Way::Object {
            object.bytes = Vec::new();
        }
        Ok(Rc::new(object))
    }

    /// How its instances are kept apart.
    pub fn way(&self) -> Way {
        self.way
    }

    /// Bytes of memory that an instance has for itself, besides what it allocates.
    pub fn instance_bytes(&self) -> usize {
        self.writable.len
    }

    /// The writable memory.
    ///
    /// # Safety
    /// Nothing of the object may run while this is used.
    #[expect(clippy::mut_from_ref, reason = "the memory is not the structure's own")]
    unsafe fn memory(&self) -> &mut [u8] {
        let Writable { start, len } = self.writable;
        // SAFETY: the loader has mapped this range, which stays as long as the library does; and by the function's condition.
        unsafe { std::slice::from_raw_parts_mut((self.loaded.base + start) as *mut u8, len) }
    }

    /// The pages that the writable memory lies in: where they begin, and their length.
    fn pages(&self) -> (usize, usize) {
        let start = self.loaded.base + self.writable.start;
        let first = start / PAGE * PAGE;
        (first, (start + self.writable.len).next_multiple_of(PAGE) - first)
    }

    /// Adds an instance: the object as it was when it was loaded. Returns its number.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn add(&self) -> Result<usize, ObjectError> {
        let memory = match self.way {
            Way::Swap => Memory::Copy(self.pristine.clone()),
            Way::Map => {
                let (first, len) = self.pages();
                // SAFETY: nothing of the object runs now; the pages are mapped and readable.
                let mut pages = unsafe { std::slice::from_raw_parts(first as *const u8, len) }.to_vec();
                let at = self.loaded.base + self.writable.start - first;
                pages[at..at + self.pristine.len()].copy_from_slice(&self.pristine);
                Memory::Pages(in_memory(&pages)?)
            }
            Way::Object => {
                let unfit = |why| ObjectError::Unfit { path: self.path.clone(), why };
                Memory::Own(Loaded::copy(&self.bytes, self.symbol).map_err(unfit)?)
            }
            Way::Own => Memory::None,
        };
        let mut state = self.state.borrow_mut();
        state.instances.push(memory);
        Ok(state.instances.len() - 1)
    }

    /// Puts an instance in place, so that what the object does is done by it.
    ///
    /// # Panics
    /// If its pages cannot be mapped, as when the process has no memory left.
    pub fn enter(&self, instance: usize) {
        let mut state = self.state.borrow_mut();
        if state.current == Some(instance) {
            return;
        }
        let State { instances, current } = &mut *state;
        match self.way {
            Way::Swap => {
                // SAFETY: the object runs only after this returns.
                let memory = unsafe { self.memory() };
                if let Some(Memory::Copy(before)) = current.and_then(|current| instances.get_mut(current)) {
                    before.copy_from_slice(memory);
                }
                if let Some(Memory::Copy(own)) = instances.get(instance) {
                    memory.copy_from_slice(own);
                }
            }
            Way::Map => {
                let (first, len) = self.pages();
                if let (Some(Memory::Pages(pages)), Some(address), Some(len)) =
                    (instances.get(instance), NonZeroUsize::new(first), NonZeroUsize::new(len))
                {
                    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
                    let flags = MapFlags::MAP_FIXED | MapFlags::MAP_SHARED;
                    // SAFETY: these pages hold the object's writable memory and nothing else, and it runs only after this returns.
                    let mapped = unsafe { mmap(Some(address), len, protection, flags, pages.as_fd(), 0) };
                    mapped.expect("the pages were mapped before");
                }
            }
            Way::Object | Way::Own => {}
        }
        *current = Some(instance);
    }

    /// The address of a function for an instance.
    ///
    /// # Errors
    /// If the object does not have it.
    pub fn function(&self, instance: usize, name: &str) -> Result<*const c_void, ObjectError> {
        let state = self.state.borrow();
        let library = match state.instances.get(instance) {
            Some(Memory::Own(own)) => &own.library,
            _ => &self.loaded.library,
        };
        // SAFETY: only the address is used here.
        let place = unsafe { library.get::<*const c_void>(name.as_bytes()) };
        let place = place.map_err(|_| ObjectError::Unfit {
            path: self.path.clone(),
            why: format!("it has no function `{name}`"),
        })?;
        Ok(*place)
    }
}
