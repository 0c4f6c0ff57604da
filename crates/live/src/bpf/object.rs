//! The compiled BPF objects, and how to load them into the kernel.

use std::sync::{Mutex, PoisonError};

use libbpf_rs::{ErrorKind, Object, ObjectBuilder, OpenObject, PrintLevel, set_print};

use super::BpfError;

/// The object files. They are read in place, as words, so they have the alignment of an ELF file.
#[repr(C, align(8))]
struct Aligned<T: ?Sized>(T);

static NICE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/nice.bpf.o")));
static BACKGROUND: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/background.bpf.o")));
static SOCKETS: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/sockets.bpf.o")));

/// One of the objects.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which {
    /// `native/bpf/nice.bpf.c`.
    Nice,
    /// `native/bpf/background.bpf.c`.
    Background,
    /// `native/bpf/sockets.bpf.c`.
    Sockets,
}

/// libbpf's last messages, for the text of an error.
static SAID: Mutex<String> = Mutex::new(String::new());

pub(super) fn listen() {
    fn hear(_: PrintLevel, text: String) {
        let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() < 1 << 16 {
            said.push_str(&text);
        }
    }
    SAID.lock().unwrap_or_else(PoisonError::into_inner).clear();
    set_print(Some((PrintLevel::Warn, hear)));
}

/// The last lines of libbpf's messages since [`listen`].
fn said() -> String {
    let said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(8)..].join("; ")
}

/// Converts libbpf's error.
pub(super) fn failed(what: &str, error: &libbpf_rs::Error) -> BpfError {
    match error.kind() {
        // The verifier reports programs that it rejects as forbidden, too.
        ErrorKind::PermissionDenied if !crate::privilege::is_privileged() => BpfError::Privilege,
        _ if let Some(problem) = forbidden() => BpfError::Kernel(problem.to_owned()),
        _ => {
            let said = said();
            let reason = if said.is_empty() { error.to_string() } else { format!("{error}: {said}") };
            BpfError::Kernel(format!("{what}: {reason}"))
        }
    }
}

/// Why bpf(2) itself is not available to a process with the privileges for it; libbpf would blame memory limits.
fn forbidden() -> Option<&'static str> {
    // SAFETY: the kernel reads and writes the sixteen zeros, which outlive the call; it returns a number and changes nothing.
    let result = unsafe {
        let mut attributes = [0u32; 4];
        nix::libc::syscall(
            nix::libc::SYS_bpf,
            libbpf_rs::libbpf_sys::BPF_PROG_GET_NEXT_ID,
            attributes.as_mut_ptr(),
            size_of_val(&attributes),
        )
    };
    if result >= 0 || !crate::privilege::is_privileged() {
        return None;
    }
    explain(std::io::Error::last_os_error().raw_os_error()?)
}

/// The meaning of an error number of bpf(2) if the privileges and the arguments are right.
fn explain(number: i32) -> Option<&'static str> {
    match number {
        nix::libc::EPERM | nix::libc::EACCES => Some(
            "the system call bpf is forbidden here although the privileges are there: by a container's system call filter \
             (run the container with --security-opt seccomp=unconfined, or this outside), or by the kernel's lockdown",
        ),
        nix::libc::ENOSYS => Some(
            "it has no system call bpf (CONFIG_BPF_SYSCALL), or a container's system call filter hides it",
        ),
        _ => None,
    }
}

/// Opens an object, to be completed and loaded.
pub(super) fn open(which: Which) -> Result<OpenObject, BpfError> {
    listen();
    let bytes = match which {
        Which::Nice => &NICE.0,
        Which::Background => &BACKGROUND.0,
        Which::Sockets => &SOCKETS.0,
    };
    ObjectBuilder::default().open_memory(bytes).map_err(|error| failed("reading the object", &error))
}

/// Loads an object into the kernel.
pub(super) fn load(object: OpenObject) -> Result<Object, BpfError> {
    // Without BTF none of the kernel's structures can be found, and libbpf's message for that is no help.
    if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err(BpfError::Kernel(
            "it has no BTF (CONFIG_DEBUG_INFO_BTF; /sys/kernel/btf/vmlinux)".to_owned(),
        ));
    }
    object.load().map_err(|error| failed("loading", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forbidden_call_is_told_from_one_that_is_not_there() {
        assert!(explain(nix::libc::EPERM).is_some_and(|text| text.contains("forbidden")));
        assert!(explain(nix::libc::ENOSYS).is_some_and(|text| text.contains("CONFIG_BPF_SYSCALL")));
        // "There are no programs" is a regular answer.
        assert_eq!(explain(nix::libc::ENOENT), None);
    }
}
