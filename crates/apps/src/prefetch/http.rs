//! One persistent HTTP/1.1 connection. Requests may be pipelined: several leave before the first is answered (RFC 9112, section 9.3.2).

use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Longest head of an answer in bytes.
const MAX_HEAD: u64 = 16 << 10;

/// How long a server may send nothing.
const SILENCE: Duration = Duration::from_secs(120);

/// A connection to a server; opened when it is needed, and opened again if it breaks.
#[derive(Debug)]
pub struct Connection {
    address: String,
    stream: Option<BufReader<TcpStream>>,
    breaker: Breaker,
    /// After this long without data, the server is considered gone. `None` is for a connection that waits as long as it takes.
    silence: Option<Duration>,
    /// Requests that are not answered yet: their paths, and header lines of their own.
    asked: VecDeque<(String, String)>,
    /// Whether this stream has answered a request before.
    used: bool,
}

/// What the server sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Bytes of the object.
    pub bytes: u64,
    /// Objects that the server suggests to prefetch ([`HINTS`]), by number.
    pub hints: Vec<u32>,
}

/// The header of an answer that lists what to prefetch, as numbers of objects; and that of a request which asks for it and names the page before, if any.
pub const HINTS: (&str, &str) = ("X-Prefetch", "X-Before");

/// Ends a connection from another thread, whatever it is waiting for.
#[derive(Clone, Debug, Default)]
pub struct Breaker(Arc<Mutex<Line>>);

#[derive(Debug, Default)]
struct Line {
    open: Option<TcpStream>,
    cut: bool,
}

impl Breaker {
    /// Ends the connection, now or as soon as it is opened.
    pub fn cut(&self) {
        let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        line.cut = true;
        if let Some(stream) = line.open.take() {
            // It may have ended by itself.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn holds(&self, stream: &TcpStream) -> io::Result<()> {
        let mut line = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if line.cut {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        line.open = Some(stream.try_clone()?);
        Ok(())
    }
}

fn invalid(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

/// The objects that a response head suggests to prefetch; none if it has no such header. What is no number is left out.
pub fn parse_hints(head: &str) -> Vec<u32> {
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    let lists = fields.filter(|(name, _)| name.trim().eq_ignore_ascii_case(HINTS.0));
    lists.flat_map(|(_, list)| list.split_ascii_whitespace()).filter_map(|url| url.parse().ok()).collect()
}

/// The status and the body length in a response head.
///
/// # Errors
/// If it is not a response head with a length.
pub fn parse_head(head: &str) -> io::Result<(u16, u64)> {
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default();
    let status = first.split_ascii_whitespace().nth(1).and_then(|code| code.parse().ok());
    let status = status
        .filter(|_| first.starts_with("HTTP/1."))
        .ok_or_else(|| invalid(format!("`{}` is not an HTTP/1 response", first.escape_debug())))?;
    let lengths = lines.filter_map(|line| line.split_once(':'));
    let length = lengths
        .filter(|(name, _)| name.trim().eq_ignore_ascii_case("content-length"))
        .find_map(|(_, value)| value.trim().parse().ok())
        .ok_or_else(|| invalid("the response does not state its length".to_owned()))?;
    Ok((status, length))
}

impl Connection {
    /// A connection to "host:port".
    pub fn new(address: String) -> Self {
        Connection {
            address,
            stream: None,
            breaker: Breaker::default(),
            silence: Some(SILENCE),
            asked: VecDeque::new(),
            used: false,
        }
    }

    /// Has it wait as long as it takes: in the background of other traffic, nothing may come for minutes.
    #[must_use]
    pub fn patient(self) -> Self {
        Connection { silence: None, ..self }
    }

    /// A handle that ends it from another thread.
    pub fn breaker(&self) -> Breaker {
        self.breaker.clone()
    }

    /// Fetches what is at `path`; returns its bytes.
    ///
    /// # Errors
    /// If the server cannot be reached or does not have it.
    pub fn get(&mut self, path: &str) -> io::Result<u64> {
        self.ask(path, "")?;
        self.answer().map(|answer| answer.bytes)
    }

    /// Sends a request with these header lines of its own; [`answer`](Self::answer) waits for what comes back.
    ///
    /// # Errors
    /// If the server cannot be reached. The request is forgotten.
    pub fn ask(&mut self, path: &str, lines: &str) -> io::Result<()> {
        let sent = self.send(path, lines);
        self.asked.push_back((path.to_owned(), lines.to_owned()));
        match sent {
            // If the server has closed a persistent connection meanwhile, that is not an error.
            Err(_) if self.used => self.repeat(),
            other => other,
        }
        .inspect_err(|_| self.forget())
    }

    /// Waits for the answer to the oldest request that has none.
    ///
    /// # Errors
    /// If the server does not have the object, or the connection broke. All requests are then forgotten.
    pub fn answer(&mut self) -> io::Result<Answer> {
        let got = match self.receive() {
            Err(error) if self.used && error.kind() != io::ErrorKind::InvalidData => {
                self.repeat().and_then(|()| self.receive())
            }
            other => other,
        };
        if got.is_err() {
            self.forget();
        }
        self.asked.pop_front();
        got
    }

    /// Sends all requests without an answer again, on a new stream.
    fn repeat(&mut self) -> io::Result<()> {
        self.stream = None;
        let asked = self.asked.clone();
        asked.iter().try_for_each(|(path, lines)| self.send(path, lines))
    }

    fn forget(&mut self) {
        self.stream = None;
        self.asked.clear();
    }

    fn send(&mut self, path: &str, lines: &str) -> io::Result<()> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{lines}\r\n", self.address);
        self.open()?.get_mut().write_all(request.as_bytes())
    }

    fn open(&mut self) -> io::Result<&mut BufReader<TcpStream>> {
        let stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(&self.address)?;
                self.breaker.holds(&stream)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(self.silence)?;
                self.used = false;
                BufReader::new(stream)
            }
        };
        Ok(self.stream.insert(stream))
    }

    fn receive(&mut self) -> io::Result<Answer> {
        let mut stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let mut head = String::new();
        let mut limited = (&mut stream).take(MAX_HEAD);
        while limited.read_line(&mut head)? > 2 {}
        if !head.ends_with("\r\n\r\n") {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (status, length) = parse_head(&head)?;
        if status != 200 {
            return Err(invalid(format!("{} answers {status}", self.address)));
        }
        let got = io::copy(&mut (&mut stream).take(length), &mut io::sink())?;
        if got != length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.used = true;
        Ok(Answer { bytes: length, hints: parse_hints(&head) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn status_and_length_are_read_from_heads() {
        let head = "HTTP/1.1 200 OK\r\nServer: x\r\ncontent-length: 17\r\n\r\n";
        assert_eq!(parse_head(head).unwrap(), (200, 17));
        assert!(parse_head("HTTP/1.1 200 OK\r\n\r\n").is_err());
        assert!(parse_head("SSH-2.0\r\nContent-Length: 1\r\n").is_err());
    }

    #[test]
    fn suggestions_are_read_from_heads() {
        let head = "HTTP/1.1 200 OK\r\nx-prefetch: 12 7 x 4000000000000\r\nContent-Length: 1\r\n\r\n";
        assert_eq!(parse_hints(head), [12, 7]);
        assert!(parse_hints("HTTP/1.1 200 OK\r\n\r\n").is_empty());
    }

    /// Reads so many requests and returns their paths.
    fn requests(stream: &mut TcpStream, count: usize) -> Vec<String> {
        let mut lines = BufReader::new(stream).lines();
        let mut line = || lines.next().unwrap().unwrap();
        (0..count)
            .map(|_| {
                let path = line().split(' ').nth(1).unwrap().to_owned();
                while !line().is_empty() {}
                path
            })
            .collect()
    }

    #[test]
    fn pipelined_requests_leave_before_the_first_answer_and_again_if_the_server_closes_between_them() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut connection = Connection::new(listener.local_addr().unwrap().to_string());
        let answer =
            |bytes: usize| format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n{}", "x".repeat(bytes));
        std::thread::scope(|scope| {
            let server = scope.spawn(|| {
                let (mut first, _) = listener.accept().unwrap();
                // All three have come, and none is answered yet.
                let asked = requests(&mut first, 3);
                first.write_all(answer(1).as_bytes()).unwrap();
                drop(first);
                let (mut second, _) = listener.accept().unwrap();
                let again = requests(&mut second, 2);
                second.write_all((answer(2) + &answer(3)).as_bytes()).unwrap();
                (asked, again)
            });
            for path in ["/a", "/b", "/c"] {
                connection.ask(path, "").unwrap();
            }
            let got: Vec<u64> = (0..3).map(|_| connection.answer().unwrap().bytes).collect();
            assert_eq!(got, [1, 2, 3]);
            let (asked, again) = server.join().unwrap();
            assert_eq!((asked.join(""), again.join("")), ("/a/b/c".to_owned(), "/b/c".to_owned()));
        });
    }

    #[test]
    fn a_waiting_connection_can_be_ended() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut connection = Connection::new(listener.local_addr().unwrap().to_string());
        let breaker = connection.breaker();
        std::thread::scope(|scope| {
            let asked = scope.spawn(move || connection.get("/x"));
            // No answer is sent. The request has arrived, so the other end waits for the response.
            let (mut other, _) = listener.accept().unwrap();
            other.read_exact(&mut [0; 16]).unwrap();
            breaker.cut();
            assert!(asked.join().unwrap().is_err());
        });
        let mut connection =
            Connection { breaker, ..Connection::new(listener.local_addr().unwrap().to_string()) };
        assert_eq!(connection.get("/x").unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[\\PC\r\n]*") {
            let _ = (parse_head(&text), parse_hints(&text));
        }
    }
}
