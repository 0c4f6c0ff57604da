//! QUIC with the library's congestion controls for Python: blocking calls that let other Python threads run and that Ctrl-C ends.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use warpline_stacks::quic::{self, Client, Identity, Settings, Trust, View};
use warpline_transport::cc::Algorithm;

/// How often a blocked call looks for Ctrl-C.
const TICK: Duration = Duration::from_millis(100);

/// Does `work` on a thread of its own and lets other Python threads run meanwhile. If a signal handler raises, it calls `give_up`, which must
/// make `work` end.
fn blocking<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
    give_up: impl Fn(),
) -> PyResult<T> {
    let (to, mut from) = channel();
    thread::spawn(move || {
        // After a signal, the receiver is gone.
        let _ = to.send(work());
    });
    loop {
        let (received, back) = py.detach(move || (from.recv_timeout(TICK), from));
        from = back;
        match received {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| give_up())?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the connection's thread ended unexpectedly"));
            }
        }
    }
}

fn value_error(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The system's error as Python makes it of its number: of the class that belongs to it (FileNotFoundError, PermissionError), with the file's name.
fn file_error(error: io::Error, path: &Path) -> PyErr {
    let named = |number| {
        Python::attach(|py| {
            let words = py.import("os")?.call_method1("strerror", (number,))?.unbind();
            Ok(PyOSError::new_err((number, words, path.as_os_str().to_owned())))
        })
    };
    match error.raw_os_error() {
        Some(number) => named(number).unwrap_or_else(|failed: PyErr| failed),
        None => PyErr::from(error),
    }
}

fn key_error(error: quic::KeyError) -> PyErr {
    match error {
        quic::KeyError::File { path, source, .. } => file_error(source, &path),
        other => value_error(other),
    }
}

fn keys(key: &Path, trust: Option<&Path>) -> PyResult<(Identity, Trust)> {
    let identity = Identity::load(key).map_err(key_error)?;
    let trust = match trust {
        Some(file) => Trust::load(file).map_err(key_error)?,
        None => Trust::only(identity.public()),
    };
    Ok((identity, trust))
}

fn settings(cc: &str) -> PyResult<Settings> {
    Ok(Settings::with(cc.parse::<Algorithm>().map_err(value_error)?))
}

/// Makes a key in a new file that only its owner can read; returns its public half.
#[pyfunction]
pub(crate) fn quic_keygen(path: PathBuf) -> PyResult<String> {
    Identity::create(&path).map(|identity| identity.public().to_string()).map_err(key_error)
}

/// The congestion control of a connection at one moment.
#[pyclass(frozen, get_all, module = "warpline._warpline")]
#[derive(Clone, Debug)]
pub(crate) struct QuicCongestion {
    /// The algorithm's name.
    algorithm: &'static str,
    /// Congestion window in bytes; may be below one datagram.
    cwnd: u64,
    /// Bytes of a full datagram.
    mtu: u64,
    /// Smallest RTT in seconds.
    min_rtt: f64,
    /// Smoothed RTT in seconds.
    srtt: f64,
    /// Bytes acknowledged.
    delivered: u64,
    /// Bytes lost.
    lost: u64,
}

impl From<View> for QuicCongestion {
    fn from(view: View) -> Self {
        QuicCongestion {
            algorithm: view.algorithm,
            cwnd: view.cwnd,
            mtu: view.mtu,
            min_rtt: view.min_rtt.as_secs_f64(),
            srtt: view.srtt.as_secs_f64(),
            delivered: view.delivered,
            lost: view.lost,
        }
    }
}

#[pymethods]
impl QuicCongestion {
    fn __repr__(&self) -> String {
        format!("{self:?}")
    }
}

/// The data of a message: bytes, or a file.
#[derive(FromPyObject)]
enum Data {
    Bytes(Vec<u8>),
    Path(PathBuf),
}

/// A connection to a server.
#[pyclass(frozen, module = "warpline._warpline")]
#[derive(Debug)]
pub(crate) struct QuicConnection(Mutex<Option<quic::Connection>>);

impl QuicConnection {
    fn open(&self) -> PyResult<quic::Connection> {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.clone().ok_or_else(|| PyValueError::new_err("the connection is closed"))
    }
}

#[pymethods]
impl QuicConnection {
    /// Connects to "host:port".
    #[staticmethod]
    #[pyo3(signature = (address, *, key, trust = None, cc = "nice"))]
    fn connect(
        py: Python<'_>,
        address: String,
        key: PathBuf,
        trust: Option<PathBuf>,
        cc: &str,
    ) -> PyResult<Self> {
        let (identity, trust) = keys(&key, trust.as_deref())?;
        let settings = settings(cc)?;
        let connect = move || Client::new(&identity, &trust, &settings)?.connect(&address);
        let connection = blocking(py, connect, || {})?.map_err(io::Error::from)?;
        Ok(QuicConnection(Mutex::new(Some(connection))))
    }

    /// Sends a message, bytes or the content of a file, and waits until the receiver has taken it; returns its length in bytes.
    fn send(&self, py: Python<'_>, data: Data) -> PyResult<u64> {
        let connection = self.open()?;
        let sender = connection.clone();
        let send = move || match data {
            Data::Bytes(bytes) => sender.send(&mut &bytes[..]).map_err(PyErr::from),
            Data::Path(path) => {
                let mut file = File::open(&path).map_err(|error| file_error(error, &path))?;
                sender.send(&mut file).map_err(PyErr::from)
            }
        };
        Ok(blocking(py, send, || connection.close(0, "interrupted"))??.bytes)
    }

    /// The congestion control now.
    #[getter]
    fn congestion(&self) -> PyResult<Option<QuicCongestion>> {
        Ok(self.open()?.congestion().map(QuicCongestion::from))
    }

    /// The server's public key.
    #[getter]
    fn peer(&self) -> PyResult<Option<String>> {
        Ok(self.open()?.peer().map(|key| key.to_string()))
    }

    /// Closes it; a second time does nothing.
    fn close(&self, py: Python<'_>) {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Closing sends a last packet, which takes a moment.
        py.detach(|| drop(held));
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: Bound<'_, pyo3::types::PyTuple>) {
        self.close(py);
    }
}

/// A message that came in.
#[pyclass(frozen, module = "warpline._warpline")]
#[derive(Debug)]
pub(crate) struct QuicMessage {
    data: Py<PyBytes>,
    peer: Option<String>,
    remote: String,
}

#[pymethods]
impl QuicMessage {
    /// Its bytes.
    #[getter]
    fn data(&self, py: Python<'_>) -> Py<PyBytes> {
        self.data.clone_ref(py)
    }
    /// The sender's public key.
    #[getter]
    fn peer(&self) -> Option<&str> {
        self.peer.as_deref()
    }
    /// The sender's address.
    #[getter]
    fn remote(&self) -> &str {
        &self.remote
    }
}

/// A message on its way from the thread that received it.
type Received = (Vec<u8>, Option<String>, String);

/// Receives messages.
#[pyclass(frozen, module = "warpline._warpline")]
#[derive(Debug)]
pub(crate) struct QuicServer {
    /// Whole messages, in the order in which they were completed.
    messages: Mutex<Option<std::sync::mpsc::Receiver<Received>>>,
    open: Arc<std::sync::atomic::AtomicBool>,
    address: String,
}

#[pymethods]
impl QuicServer {
    /// Listens on "address:port".
    #[staticmethod]
    #[pyo3(signature = (address, *, key, trust = None, max_bytes = 1 << 30))]
    fn bind(
        py: Python<'_>,
        address: &str,
        key: PathBuf,
        trust: Option<PathBuf>,
        max_bytes: u64,
    ) -> PyResult<Self> {
        use std::sync::atomic::{AtomicBool, Ordering};
        let (identity, trust) = keys(&key, trust.as_deref())?;
        let server = py.detach(|| quic::Server::bind(address, &identity, &trust, &Settings::default()));
        let server = server.map_err(io::Error::from)?;
        let address = server.local_addr()?.to_string();
        let (to, messages) = std::sync::mpsc::sync_channel(16);
        let open = Arc::new(AtomicBool::new(true));
        let listening = open.clone();
        thread::spawn(move || {
            while listening.load(Ordering::Relaxed) {
                let connection = match server.accept(TICK) {
                    Ok(Some(connection)) => connection,
                    // With this thread the messages end.
                    Err(quic::QuicError::Ended) => break,
                    // An untrusted peer has been refused; `accept` has sent it the reason.
                    Ok(None) | Err(_) => continue,
                };
                let to = to.clone();
                thread::spawn(move || {
                    while let Ok(mut message) = quic::Message::accept(&connection) {
                        let mut data = Vec::new();
                        let read = (&mut message).take(max_bytes.saturating_add(1)).read_to_end(&mut data);
                        // Broken off, or too long: the sender gets an error.
                        if read.is_err() || data.len() as u64 > max_bytes {
                            continue;
                        }
                        let peer = message.peer().map(|key| key.to_string());
                        let remote = message.remote_address().to_string();
                        if to.send((data, peer, remote)).is_err() || message.taken().is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Ok(QuicServer { messages: Mutex::new(Some(messages)), open, address })
    }

    /// Where it listens.
    #[getter]
    fn address(&self) -> &str {
        &self.address
    }

    /// Stops listening; a second time does nothing.
    fn close(&self) {
        self.open.store(false, std::sync::atomic::Ordering::Relaxed);
        *self.messages.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    /// The next message; iteration ends when the server is closed.
    fn __next__(&self, py: Python<'_>) -> PyResult<Option<QuicMessage>> {
        loop {
            let received = py.detach(|| {
                let held = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
                held.as_ref().map(|messages| messages.recv_timeout(TICK))
            });
            match received {
                None | Some(Err(RecvTimeoutError::Disconnected)) => return Ok(None),
                Some(Err(RecvTimeoutError::Timeout)) => py.check_signals()?,
                Some(Ok((data, peer, remote))) => {
                    let data = PyBytes::new(py, &data).unbind();
                    return Ok(Some(QuicMessage { data, peer, remote }));
                }
            }
        }
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: Bound<'_, pyo3::types::PyTuple>) {
        self.close();
    }
}
