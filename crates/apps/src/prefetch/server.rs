//! nginx with a trace's objects, on two ports that send with different congestion controls.
//!
//! nginx has no setting for the congestion control, but accepted sockets inherit that of the listening socket. So this program opens the
//! sockets, sets their algorithms, and passes them to nginx as nginx does in an upgrade of itself: by number, in the variable NGINX.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::sockopt::{set_tcp_congestion, tcp_congestion};
use tempfile::TempDir;

use super::http::HINTS;
use super::ppm::Predictor;
use super::room::open_files;
use super::trace::Trace;

/// Lists the kernel's congestion controls.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// nginx is not installed.
    #[error(
        "nginx is not installed (Debian: apt-get install nginx-light); or name a running server with --server"
    )]
    NoNginx,
    /// The kernel does not have, or does not allow, the congestion control.
    #[error("cannot use the congestion control `{name}` of this kernel: {source}; it has {available}")]
    Congestion {
        /// The algorithm.
        name: String,
        /// Why not.
        source: io::Error,
        /// The congestion controls that it has.
        available: String,
    },
    /// A system call failed.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// nginx ended, or does not answer.
    #[error("nginx does not serve: {0}")]
    Dead(String),
}

fn system(action: &'static str) -> impl FnOnce(io::Error) -> ServerError {
    move |source| ServerError::System { action, source }
}

/// The congestion controls that the kernel has now.
pub fn available() -> Vec<String> {
    let text = fs::read_to_string(AVAILABLE).unwrap_or_default();
    text.split_whitespace().map(ToOwned::to_owned).collect()
}

/// That the kernel has no TCP Nice, and what to do.
pub const NO_NICE: &str = "this kernel has no TCP Nice (`warpline nice load` loads it)";

/// The kernel's congestion control for a requested name, with a note if it is a substitute: LP or else Reno, for `nice`.
pub fn resolve(wish: &str, available: &[String]) -> (String, Option<String>) {
    let has = |name: &&str| available.iter().any(|other| other == name);
    // The names of TCP Nice in the kernel.
    let same: &[&str] = if wish == "nice" { &["nice", "warpline_nice", "bpf_nice"] } else { &[] };
    if let Some(name) = same.iter().find(|name| has(name)) {
        return ((*name).to_owned(), None);
    }
    if wish != "nice" || has(&wish) {
        return (wish.to_owned(), None);
    }
    let nearest = ["lp", "reno"].into_iter().find(|name| has(name)).unwrap_or("reno");
    let note = format!(
        "{NO_NICE}; `{nearest}` is used instead, which {}",
        if nearest == "lp" { "hardly yields" } else { "does not yield" }
    );
    (nearest.to_owned(), Some(note))
}

/// The command that starts nginx so that it ends with this process, even with one that is killed. Where there is no `setpriv` (util-linux) that can do this,
/// nginx stays then.
fn nginx() -> Command {
    let bound = || {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "nginx"]);
        command
    };
    let tried = bound().arg("-v").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if tried.is_ok_and(|status| status.success()) { bound() } else { Command::new("nginx") }
}

/// A running nginx; it ends when this value is dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Address for requested objects.
    pub demand: SocketAddr,
    /// Address for prefetched objects.
    pub prefetch: SocketAddr,
    /// Kept for nginx.
    _directory: TempDir,
}

/// A socket that listens on `address` and sends with `algorithm`.
fn listen(address: SocketAddr, algorithm: &str) -> Result<TcpListener, ServerError> {
    let socket = TcpListener::bind(address).map_err(system("listen for HTTP"))?;
    let set = set_tcp_congestion(&socket, algorithm).map_err(io::Error::from);
    set.map_err(|source| ServerError::Congestion {
        name: algorithm.to_owned(),
        source,
        available: available().join(", "),
    })?;
    fcntl_setfd(socket.as_fd(), FdFlags::empty())
        .map_err(|error| system("hand a socket on")(error.into()))?;
    Ok(socket)
}

impl Server {
    /// Serves the objects of `trace` at `address` on two ports: on `port` with the congestion control `demand_cc`, and on the next one with
    /// `prefetch_cc`. Port 0 stands for any two. With `hints`, an answer to a request that asks for it lists what this predictor expects. Where there are
    /// many clients, there has to be [room](super::room::make) for them.
    ///
    /// # Errors
    /// If nginx is not installed, or a congestion control is not available.
    pub fn start(
        trace: &Trace,
        address: IpAddr,
        port: u16,
        demand_cc: &str,
        prefetch_cc: &str,
        hints: Option<&Predictor>,
    ) -> Result<Self, ServerError> {
        let second = if port == 0 { 0 } else { port.saturating_add(1) };
        let sockets = [
            listen(SocketAddr::new(address, port), demand_cc)?,
            listen(SocketAddr::new(address, second), prefetch_cc)?,
        ];
        let mut addresses = [SocketAddr::new(address, 0); 2];
        for (socket, address) in sockets.iter().zip(&mut addresses) {
            *address = socket.local_addr().map_err(system("listen for HTTP"))?;
        }
        let directory = tempfile::Builder::new().prefix("warpline-prefetch-").tempdir();
        let directory = directory.map_err(system("create a directory"))?;
        objects(trace, directory.path()).map_err(system("write the objects"))?;
        let config = config(directory.path(), &addresses, trace.clients.len(), hints);
        let path = directory.path().join("nginx.conf");
        fs::write(&path, config).map_err(system("write nginx.conf"))?;
        let numbers = sockets.iter().fold(String::new(), |mut text, socket| {
            let _ = write!(text, "{};", socket.as_raw_fd());
            text
        });
        let child = nginx()
            .arg("-e")
            .arg(directory.path().join("error.log"))
            .arg("-p")
            .arg(directory.path())
            .arg("-c")
            .arg(&path)
            .env("NGINX", numbers)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => ServerError::NoNginx,
                _ => system("start nginx")(source),
            })?;
        let [demand, prefetch] = addresses;
        let mut server = Server { child, demand, prefetch, _directory: directory };
        server.wait()?;
        Ok(server)
    }

    /// Waits until it answers.
    fn wait(&mut self) -> Result<(), ServerError> {
        let log = || {
            let text = fs::read_to_string(self._directory.path().join("error.log")).unwrap_or_default();
            text.lines().last().unwrap_or("no reason given").to_owned()
        };
        for _ in 0..100 {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(ServerError::Dead(format!("it ended with {status}: {}", log())));
            }
            let reach = |address: SocketAddr| {
                let ip = if address.ip().is_unspecified() { [127, 0, 0, 1].into() } else { address.ip() };
                TcpStream::connect((ip, address.port())).is_ok()
            };
            // Our sockets accept connections from the start. nginx is ready when it has written its process ID.
            let ready = self._directory.path().join("nginx.pid").exists();
            if ready && reach(self.demand) && reach(self.prefetch) {
                return Ok(());
            }
            pause(Duration::from_millis(50));
        }
        Err(ServerError::Dead(format!("it does not answer: {}", log())))
    }

    /// Waits until it ends by itself, which it does when it is killed.
    ///
    /// # Errors
    /// If waiting fails.
    pub fn join(&mut self) -> io::Result<()> {
        self.child.wait().map(|_| ())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The master process ends its workers when it is asked to end, but not when it is killed.
        // Once it has ended by itself, its number may be that of another process.
        if matches!(self.child.try_wait(), Ok(None)) {
            let pid = rustix::process::Pid::from_child(&self.child);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the edge: another program needs its time to start")]
fn pause(span: Duration) {
    std::thread::sleep(span);
}

/// Creates the objects as files that consist of holes, which take no disk space.
fn objects(trace: &Trace, directory: &Path) -> io::Result<()> {
    let root = directory.join("root/o");
    fs::create_dir_all(&root)?;
    for (number, object) in trace.objects.iter().enumerate() {
        File::create(root.join(number.to_string()))?.set_len(object.bytes)?;
    }
    // Workers may run as another user.
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))
}

/// The path at which an object is served.
pub fn path(url: u32) -> String {
    format!("/o/{url}")
}

/// Connections that nginx takes in any case: those of its own, and of clients that are not of the trace.
const CONNECTIONS: u64 = 1024;

fn config(
    directory: &Path,
    addresses: &[SocketAddr; 2],
    clients: usize,
    hints: Option<&Predictor>,
) -> String {
    let directory = directory.display();
    // nginx closes waiting connections before it has used all, so this is far more than two for each client.
    let connections = open_files(clients).max(CONNECTIONS);
    let mut text = format!(
        "daemon off;\nworker_processes 1;\npid {directory}/nginx.pid;\nerror_log {directory}/error.log;\n\
         events {{ worker_connections {connections}; }}\n\
         http {{\n  access_log off;\n  sendfile on;\n  tcp_nopush off;\n  keepalive_requests 1000000;\n  keepalive_timeout 3600;\n  \
         # A background connection may send nothing for minutes.\n  send_timeout 3600;\n  \
         client_body_temp_path {directory}/b;\n  proxy_temp_path {directory}/p;\n  fastcgi_temp_path {directory}/f;\n  \
         uwsgi_temp_path {directory}/u;\n  scgi_temp_path {directory}/s;\n"
    );
    if let Some(predictor) = hints {
        text += &suggestions(predictor);
    }
    text += "  server {\n";
    for address in addresses {
        let _ = writeln!(text, "    listen {address};");
    }
    let _ = write!(text, "    root {directory}/root;\n  }}\n}}\n");
    text
}

/// Most objects in a list that the server sends.
const LISTED: usize = 100;

/// The part of the configuration that answers with lists of what to prefetch: after the page before and the present one, or after the present one alone
/// if the two were not seen together.
fn suggestions(predictor: &Predictor) -> String {
    let (answer, request) = HINTS;
    let variable = request.to_ascii_lowercase().replace('-', "_");
    let (mut one, mut two) = (String::new(), String::new());
    for (context, list) in predictor.lists() {
        let list: Vec<String> = list.iter().take(LISTED).map(u32::to_string).collect();
        let _ = match *context {
            [page] => writeln!(one, "    \"{}\" \"{}\";", path(page), list.join(" ")),
            [before, page] => writeln!(two, "    \"{before} {}\" \"{}\";", path(page), list.join(" ")),
            // The policies have contexts of two pages at most.
            _ => Ok(()),
        };
    }
    format!(
        "  map_hash_max_size 262144;\n  map_hash_bucket_size 128;\n  map $uri $after_one {{\n    default \"\";\n{one}  }}\n  \
         map \"$http_{variable} $uri\" $after_two {{\n    default $after_one;\n{two}  }}\n  \
         map $http_{variable} $list {{\n    \"\" \"\";\n    default $after_two;\n  }}\n  add_header {answer} $list;\n"
    )
}

/// The congestion control of a socket.
///
/// # Errors
/// If it is not a TCP socket.
pub fn congestion(socket: impl AsFd) -> io::Result<String> {
    Ok(tcp_congestion(socket)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nginx_takes_two_connections_of_each_client_and_more() {
        let addresses = [SocketAddr::from(([127, 0, 0, 1], 8080)), SocketAddr::from(([127, 0, 0, 1], 8081))];
        let connections = |clients: usize| {
            let text = config(Path::new("/d"), &addresses, clients, None);
            let (_, rest) = text.split_once("worker_connections ").unwrap();
            rest.split(';').next().unwrap().parse::<u64>().unwrap()
        };
        assert_eq!(connections(16), 1024);
        assert!(connections(1000) > 2 * 1000 * 17 / 16, "a sixteenth of all stays free");
    }

    #[test]
    fn nice_has_a_substitute_that_is_reported() {
        let names = |text: &str| text.split(' ').map(ToOwned::to_owned).collect::<Vec<_>>();
        assert_eq!(resolve("nice", &names("reno cubic nice")), ("nice".to_owned(), None));
        let (name, note) = resolve("nice", &names("reno cubic lp"));
        assert!(name == "lp" && note.unwrap().contains("hardly yields"));
        let (name, note) = resolve("nice", &names("reno cubic"));
        assert!(name == "reno" && note.unwrap().contains("does not yield"));
        assert_eq!(resolve("bbr", &names("reno")), ("bbr".to_owned(), None));
    }
}
