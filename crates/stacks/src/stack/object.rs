//! A stack in a shared object that exports the functions of `native/warpline_stack.h`, whatever it is written in.
//!
//! The object is code that the user has chosen to run in this process. A failed assertion that it reports ends its host only, and so does a crash.

use std::cell::{Cell, UnsafeCell};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use warpline_core::{Stream, TimeDelta, Timestamp};

use super::crash::{self, Crash, Watch};
use super::globaliser::{Object, ObjectError, Way};
use super::{Event, Outcome, SocketError, SocketId, SocketInfo, SocketOptions, Stack, StackConfig};

/// The version of the interface, and the function that tells it.
const ABI: u32 = 1;
const ABI_FUNCTION: &str = "warpline_stack_abi";
/// The flag of an object that keeps its instances apart by itself.
const INSTANCES: u32 = 1;
/// The flag of an object whose runtime handles signals.
const SIGNALS: u32 = 2;
/// No value, or no deadline.
const NONE: u64 = u64::MAX;

/// The structures of the header.
#[repr(C)]
struct RawConfig {
    ip: u32,
    mtu: u32,
    send_buffer: u64,
    receive_buffer: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RawAddress {
    ip: u32,
    port: u16,
}

#[repr(C)]
struct RawInfo {
    acked: u64,
    cwnd: u64,
    ssthresh: u64,
    srtt: u64,
    in_flight: u64,
}

#[repr(C)]
struct RawCallbacks {
    context: *mut c_void,
    random: extern "C" fn(*mut c_void) -> u64,
    transmit: extern "C" fn(*mut c_void, *const c_void, usize),
    event: extern "C" fn(*mut c_void, c_int, u64, u16, *const RawAddress),
    fail: extern "C" fn(*mut c_void, *const c_char),
}

/// Declares the functions of an object: how each is called, and its name.
macro_rules! functions {
    ($($field:ident: $name:literal ($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of an object, for one instance.
        #[derive(Clone, Copy, Debug)]
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            fn find(object: &Object, instance: usize) -> Result<Functions, ObjectError> {
                Ok(Functions {
                    $($field: {
                        let address = object.function(instance, concat!("warpline_stack_", $name))?;
                        // SAFETY: the header says that a function of this name has these arguments, and the version was checked.
                        unsafe {
                            std::mem::transmute::<*const c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(address)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    new: "new" (u64, *const RawConfig, *const RawCallbacks) -> *mut c_void;
    free: "free" (*mut c_void);
    packet: "packet" (*mut c_void, u64, *const c_void, usize);
    timeout: "timeout" (*mut c_void, u64);
    deadline: "deadline" (*mut c_void, u64) -> u64;
    listen: "listen" (*mut c_void, u64, u16, *const c_char) -> c_int;
    unlisten: "unlisten" (*mut c_void, u64, u16);
    connect: "connect" (*mut c_void, u64, *const RawAddress, *const c_char, *mut RawAddress) -> i64;
    write: "write" (*mut c_void, u64, u64, *const c_void, usize) -> usize;
    read: "read" (*mut c_void, u64, u64, *mut c_void, usize) -> usize;
    close: "close" (*mut c_void, u64, u64);
    abort: "abort" (*mut c_void, u64, u64);
    info: "info" (*mut c_void, u64, *mut RawInfo) -> c_int;
}

/// What the callbacks of a host reach.
#[derive(Debug)]
struct Context {
    stream: Stream,
    outgoing: VecDeque<Vec<u8>>,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
    events: VecDeque<(c_int, SocketId, u16, Option<SocketAddr>)>,
    failure: Option<String>,
}

/// The context of a callback.
///
/// # Safety
/// `context` must be what the host was made with, and nobody else may use it now: it is used by the host's functions only while they run, and by
/// [`Hosted`] only while they do not.
unsafe fn context<'a>(context: *mut c_void) -> &'a mut Context {
    // SAFETY: by the condition.
    unsafe { &mut *context.cast::<Context>() }
}

extern "C" fn random(own: *mut c_void) -> u64 {
    // SAFETY: a callback of this host, while one of its functions runs.
    crash::pause(|| unsafe { context(own) }.stream.next_u64())
}

extern "C" fn transmit(own: *mut c_void, packet: *const c_void, len: usize) {
    crash::pause(|| {
        // SAFETY: as above; and the header says that `packet` has `len` bytes.
        let (own, packet) = unsafe { (context(own), std::slice::from_raw_parts(packet.cast::<u8>(), len)) };
        let mut buffer = own.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(packet);
        own.outgoing.push_back(buffer);
    });
}

extern "C" fn event(own: *mut c_void, kind: c_int, socket: u64, port: u16, remote: *const RawAddress) {
    crash::pause(|| {
        // SAFETY: as above; and the header says that `remote` is null or an address.
        let (own, remote) = unsafe { (context(own), remote.as_ref()) };
        own.events.push_back((kind, SocketId(socket), port, remote.copied().map(address)));
    });
}

extern "C" fn fail(own: *mut c_void, reason: *const c_char) {
    crash::pause(|| {
        // SAFETY: as above; and the header says that `reason` is a string.
        let (own, reason) = unsafe { (context(own), CStr::from_ptr(reason)) };
        own.failure = Some(reason.to_string_lossy().into_owned());
    });
}

fn address(raw: RawAddress) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::from(raw.ip.to_ne_bytes()).into(), raw.port)
}

fn raw(address: SocketAddr) -> Option<RawAddress> {
    match address.ip() {
        IpAddr::V4(ip) => Some(RawAddress { ip: u32::from_ne_bytes(ip.octets()), port: address.port() }),
        IpAddr::V6(_) => None,
    }
}

/// The objects of a run, each loaded once, with its flags.
#[derive(Debug, Default)]
pub(super) struct Objects(BTreeMap<PathBuf, (Rc<Object>, u32)>);

impl Objects {
    /// The object in a file, and its flags.
    ///
    /// # Errors
    /// If it cannot be loaded, or has another version of the interface.
    fn of(&mut self, path: &Path) -> Result<(Rc<Object>, u32), ObjectError> {
        if let Some(known) = self.0.get(path) {
            return Ok(known.clone());
        }
        let whole = Object::load(path, ABI_FUNCTION, Some(Way::Own))?;
        let flags = flags(&whole, path)?;
        let object = match flags & INSTANCES {
            0 => Object::load(path, ABI_FUNCTION, None)?,
            _ => whole,
        };
        self.0.insert(path.to_owned(), (Rc::clone(&object), flags));
        Ok((object, flags))
    }
}

/// The flags of an object, whose version is checked before.
fn flags(object: &Object, path: &Path) -> Result<u32, ObjectError> {
    let instance = object.add()?;
    let call = |name: &str| -> Result<u32, ObjectError> {
        let address = object.function(instance, name)?;
        // SAFETY: the header says that these functions take nothing and return a number.
        Ok(unsafe { std::mem::transmute::<*const c_void, extern "C" fn() -> u32>(address) }())
    };
    let version = call(ABI_FUNCTION)?;
    if version != ABI {
        let why = format!(
            "it was built for version {version} of warpline_stack.h; this program has {ABI}: build it again"
        );
        return Err(ObjectError::Unfit { path: path.to_owned(), why });
    }
    call("warpline_stack_flags")
}

/// A host whose stack is in a shared object.
pub(super) struct Hosted {
    object: Rc<Object>,
    instance: usize,
    functions: Functions,
    /// The first argument of its functions.
    host: *mut c_void,
    /// Boxed, since its functions keep its address.
    context: Box<UnsafeCell<Context>>,
    /// The time of the last call.
    now: Timestamp,
    address: Ipv4Addr,
    locals: BTreeMap<SocketId, SocketAddr>,
    /// The congestion controls that messages name.
    known: &'static [&'static str],
    /// Whether it has crashed. None of its functions may be called then.
    has_crashed: Cell<bool>,
    /// What makes a crash end the host; none if it ends the process.
    watch: Option<Watch>,
}

impl std::fmt::Debug for Hosted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hosted").field("instance", &self.instance).finish_non_exhaustive()
    }
}

impl Hosted {
    /// A host by the object in the file `path`.
    ///
    /// # Errors
    /// If the object cannot be used, or makes no host.
    pub(super) fn new(
        objects: &mut Objects,
        path: &Path,
        config: StackConfig,
        known: &'static [&'static str],
    ) -> Result<Hosted, String> {
        let StackConfig { addresses, mtu, stream, send_buffer, receive_buffer } = config;
        let v4 = addresses.iter().find_map(|address| match address {
            IpAddr::V4(address) => Some(*address),
            IpAddr::V6(_) => None,
        });
        let address = v4.ok_or("it needs an IPv4 address")?;
        let (object, flags) = objects.of(path).map_err(|error| error.to_string())?;
        let instance = object.add().map_err(|error| error.to_string())?;
        let functions = Functions::find(&object, instance).map_err(|error| error.to_string())?;
        let (outgoing, events) = (VecDeque::new(), VecDeque::new());
        let context =
            Box::new(UnsafeCell::new(Context { stream, outgoing, spare: Vec::new(), events, failure: None }));
        let raw = RawConfig {
            ip: u32::from_ne_bytes(address.octets()),
            mtu,
            send_buffer: send_buffer.map_or(0, |size| size.0),
            receive_buffer: receive_buffer.map_or(0, |size| size.0),
        };
        let callbacks = RawCallbacks { context: context.get().cast(), random, transmit, event, fail };
        object.enter(instance);
        let watch = (flags & SIGNALS == 0).then(Watch::new);
        // SAFETY: as the header says; the callbacks' context lives as long as the host.
        let host = guarded(watch.is_some(), || unsafe { (functions.new)(0, &raw, &callbacks) });
        let host = host.map_err(|crash| format!("{}: it crashed: {crash}", path.display()))?;
        let own = Hosted {
            object,
            instance,
            functions,
            host,
            context,
            now: Timestamp::ZERO,
            address,
            locals: BTreeMap::new(),
            known,
            has_crashed: Cell::new(false),
            watch,
        };
        match (host.is_null(), own.failure()) {
            (_, Some(why)) => Err(why),
            (true, None) => Err(format!("{}: it makes no host", path.display())),
            (false, None) => Ok(own),
        }
    }

    /// Its context, while none of its functions runs.
    fn context(&mut self) -> &mut Context {
        self.context.get_mut()
    }

    /// Calls a function of the object. None once the host has failed.
    fn call<R>(&self, action: impl FnOnce(&Functions, *mut c_void) -> R) -> Option<R> {
        if self.failure().is_some() {
            return None;
        }
        self.object.enter(self.instance);
        match guarded(self.watch.is_some(), || action(&self.functions, self.host)) {
            Ok(result) => Some(result),
            Err(crash) => {
                self.on_crash(crash);
                None
            }
        }
    }

    fn on_crash(&self, crash: Crash) {
        self.has_crashed.set(true);
        // SAFETY: none of its functions runs.
        let own = unsafe { &mut *self.context.get() };
        own.failure = Some(format!(
            "it crashed at {} of the run: {crash}. It may have written to any memory before: do not trust other results of this run",
            self.now
        ));
    }

    fn error(
        &self,
        code: i64,
        (port, remote, options): (u16, Option<SocketAddr>, &SocketOptions),
    ) -> SocketError {
        match (code, remote) {
            (-1, _) => SocketError::Taken(port),
            (-2, Some(remote)) => SocketError::Ports(remote),
            (-3, _) => SocketError::Full,
            (-4, _) => SocketError::Cc { name: options.cc.clone().unwrap_or_default(), known: self.known },
            _ => SocketError::Other("the stack cannot do this".to_owned()),
        }
    }
}

/// Calls a function of an object, from which a crash comes back if `comes_back` is set.
fn guarded<R>(comes_back: bool, action: impl FnOnce() -> R) -> Result<R, Crash> {
    if comes_back { crash::guarded(action) } else { Ok(action()) }
}

/// A name for a function of the object: none for no name, or one with a zero in it.
fn name(options: &SocketOptions) -> Option<CString> {
    options.cc.as_ref().and_then(|cc| CString::new(cc.as_str()).ok())
}

fn pointer(name: &Option<CString>) -> *const c_char {
    name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr())
}

impl Drop for Hosted {
    fn drop(&mut self) {
        if !self.host.is_null() && !self.has_crashed.get() {
            self.object.enter(self.instance);
            // SAFETY: the host is not used again. Nothing is left to be told of a crash.
            let _ = guarded(self.watch.is_some(), || unsafe { (self.functions.free)(self.host) });
        }
    }
}

impl Stack for Hosted {
    fn handle_packet(&mut self, now: Timestamp, packet: &[u8]) {
        self.now = now;
        // SAFETY: as the header says: `packet` has so many bytes.
        self.call(|own, host| unsafe {
            (own.packet)(host, now.as_nanos(), packet.as_ptr().cast(), packet.len());
        });
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.now = now;
        // SAFETY: as the header says.
        self.call(|own, host| unsafe { (own.timeout)(host, now.as_nanos()) });
    }

    fn poll_transmit(&mut self, now: Timestamp, packet: &mut Vec<u8>) -> bool {
        self.now = now;
        let own = self.context();
        let Some(mut next) = own.outgoing.pop_front() else { return false };
        std::mem::swap(packet, &mut next);
        own.spare.push(next);
        true
    }

    fn poll_timeout(&mut self) -> Timestamp {
        let now = self.now;
        // SAFETY: as the header says.
        match self.call(|own, host| unsafe { (own.deadline)(host, now.as_nanos()) }) {
            None | Some(NONE) => Timestamp::NEVER,
            Some(at) => Timestamp::from_nanos(at).max(now + TimeDelta::from_nanos(1)),
        }
    }

    fn listen(&mut self, now: Timestamp, port: u16, options: &SocketOptions) -> Result<(), SocketError> {
        let cc = name(options);
        // SAFETY: as the header says: `cc` is a string or null.
        let code = self.call(|own, host| unsafe { (own.listen)(host, now.as_nanos(), port, pointer(&cc)) });
        match code.unwrap_or(-5) {
            0 => Ok(()),
            code => Err(self.error(code.into(), (port, None, options))),
        }
    }

    fn stop_listening(&mut self, now: Timestamp, port: u16) {
        // SAFETY: as the header says.
        self.call(|own, host| unsafe { (own.unlisten)(host, now.as_nanos(), port) });
    }

    fn connect(
        &mut self,
        now: Timestamp,
        remote: SocketAddr,
        options: &SocketOptions,
    ) -> Result<SocketId, SocketError> {
        let cc = name(options);
        let to = raw(remote).ok_or(SocketError::NoAddress("IPv6"))?;
        let mut local = RawAddress { ip: 0, port: 0 };
        // SAFETY: as the header says: the addresses are, and `cc` is a string or null.
        let code = self
            .call(|own, host| unsafe { (own.connect)(host, now.as_nanos(), &to, pointer(&cc), &mut local) });
        match code.unwrap_or(-5) {
            code @ ..=0 => Err(self.error(code, (remote.port(), Some(remote), options))),
            socket => {
                let socket = SocketId(socket as u64);
                self.locals.insert(socket, address(local));
                Ok(socket)
            }
        }
    }

    fn local_address(&self, socket: SocketId) -> Option<SocketAddr> {
        self.locals.get(&socket).copied()
    }

    fn write(&mut self, now: Timestamp, socket: SocketId, bytes: &[u8]) -> usize {
        let len = bytes.len();
        // SAFETY: as the header says: there are `len` bytes.
        let taken = self.call(|own, host| unsafe {
            (own.write)(host, now.as_nanos(), socket.0, bytes.as_ptr().cast(), len)
        });
        taken.unwrap_or(0).min(len)
    }

    fn read(&mut self, now: Timestamp, socket: SocketId, buffer: &mut [u8]) -> usize {
        let len = buffer.len();
        // SAFETY: as the header says: there is room for `len` bytes.
        let read = self.call(|own, host| unsafe {
            (own.read)(host, now.as_nanos(), socket.0, buffer.as_mut_ptr().cast(), len)
        });
        read.unwrap_or(0).min(len)
    }

    fn close(&mut self, now: Timestamp, socket: SocketId) {
        // SAFETY: as the header says.
        self.call(|own, host| unsafe { (own.close)(host, now.as_nanos(), socket.0) });
    }

    fn abort(&mut self, now: Timestamp, socket: SocketId) {
        // SAFETY: as the header says.
        self.call(|own, host| unsafe { (own.abort)(host, now.as_nanos(), socket.0) });
    }

    fn poll_event(&mut self) -> Option<Event> {
        loop {
            let (kind, socket, port, remote) = self.context().events.pop_front()?;
            let ended = |outcome| Event::Closed(socket, outcome);
            let event = match kind {
                1 => Event::Connected(socket),
                2 => {
                    let remote = remote.unwrap_or(SocketAddr::new(self.address.into(), 0));
                    self.locals.insert(socket, SocketAddr::new(self.address.into(), port));
                    Event::Accepted { port, socket, remote }
                }
                3 => Event::Readable(socket),
                4 => Event::Writable(socket),
                5 => Event::Finished(socket),
                6 => ended(Outcome::Complete),
                7 => ended(Outcome::Reset),
                8 => ended(Outcome::TimedOut),
                9 => ended(Outcome::Aborted),
                // Of a later version: nothing that this one knows.
                _ => continue,
            };
            if let Event::Closed(..) = event {
                self.locals.remove(&socket);
            }
            return Some(event);
        }
    }

    fn info(&self, socket: SocketId) -> Option<SocketInfo> {
        let mut info = RawInfo { acked: 0, cwnd: NONE, ssthresh: NONE, srtt: NONE, in_flight: NONE };
        // SAFETY: as the header says: `info` is written to.
        let code = self.call(|own, host| unsafe { (own.info)(host, socket.0, &mut info) })?;
        let known = |value: u64| (value != NONE).then_some(value);
        (code == 0).then(|| SocketInfo {
            acked: info.acked,
            cwnd: known(info.cwnd),
            ssthresh: known(info.ssthresh),
            srtt: known(info.srtt).map(TimeDelta::from_nanos),
            in_flight: known(info.in_flight),
            lost: None,
        })
    }

    fn failure(&self) -> Option<String> {
        // SAFETY: none of the host's functions runs now, and the reference does not outlive this line.
        unsafe { (*self.context.get()).failure.clone() }
    }
}
