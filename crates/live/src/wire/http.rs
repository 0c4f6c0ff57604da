//! The part of HTTP/1.1 (RFC 9112) that `curl http://host/bytes/N` needs: one request per connection, answered with N bytes.

/// Most bytes of a request's head.
pub const LARGEST_HEAD: usize = 8192;

/// A response: a head, followed by this many bytes of the pattern ([`super::payload::Pattern`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status line and fields, with the empty line.
    pub head: Vec<u8>,
    /// Bytes of the body.
    pub body: u64,
}

impl Response {
    fn new(status: &str, body: u64, with_body: bool) -> Self {
        let head = format!(
            "HTTP/1.1 {status}\r\nServer: warpline\r\nContent-Type: application/octet-stream\r\n\
             Content-Length: {body}\r\nConnection: close\r\n\r\n"
        );
        Response { head: head.into_bytes(), body: if with_body { body } else { 0 } }
    }

    fn error(status: &str) -> Self {
        Response::new(status, 0, false)
    }
}

/// The response to the request whose bytes so far are `request`; `None` while its head is not complete.
///
/// `GET /bytes/N` and `HEAD /bytes/N` are answered with N bytes, other paths with `size` bytes, or with an error if `size` is `None`.
pub fn answer(request: &[u8], size: Option<u64>) -> Option<Response> {
    let Some(end) = request.windows(4).position(|window| window == b"\r\n\r\n") else {
        return (request.len() >= LARGEST_HEAD)
            .then(|| Response::error("431 Request Header Fields Too Large"));
    };
    let line = request[..end].split(|&byte| byte == b'\r').next().unwrap_or_default();
    let Ok(line) = std::str::from_utf8(line) else { return Some(Response::error("400 Bad Request")) };
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Some(Response::error("400 Bad Request"));
    };
    if !version.starts_with("HTTP/1.") {
        return Some(Response::error("505 HTTP Version Not Supported"));
    }
    if method != "GET" && method != "HEAD" {
        return Some(Response::error("405 Method Not Allowed"));
    }
    let bytes = match target.strip_prefix("/bytes/") {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok(),
        Some(_) => None,
        None => size.filter(|_| target.starts_with('/')),
    };
    Some(match bytes.filter(|&bytes| bytes <= 1 << 60) {
        Some(bytes) => Response::new("200 OK", bytes, method == "GET"),
        None => Response::error("404 Not Found"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn status(request: &str) -> Option<String> {
        let head = String::from_utf8(answer(request.as_bytes(), None)?.head).unwrap();
        Some(head.split(' ').nth(1).unwrap().to_owned())
    }

    #[test]
    fn bytes_are_served_and_all_else_is_refused() {
        let whole = answer(b"GET /bytes/1234 HTTP/1.1\r\nHost: x\r\n\r\n", None).unwrap();
        assert_eq!(whole.body, 1234);
        assert!(String::from_utf8(whole.head).unwrap().contains("Content-Length: 1234\r\n"));
        assert_eq!(answer(b"HEAD /bytes/9 HTTP/1.0\r\n\r\n", Some(1)).unwrap().body, 0);
        for (request, expected) in [
            ("GET /bytes/5 HTTP/1.1\r\n\r\n", "200"),
            ("GET /bytes/-5 HTTP/1.1\r\n\r\n", "404"),
            ("GET /bytes/ HTTP/1.1\r\n\r\n", "404"),
            ("GET /bytes/99999999999999999999 HTTP/1.1\r\n\r\n", "404"),
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("PUT /bytes/5 HTTP/1.1\r\n\r\n", "405"),
            ("GET /bytes/5 HTTP/2\r\n\r\n", "505"),
            ("GET /bytes/5\r\n\r\n", "400"),
            ("\r\n\r\n", "400"),
        ] {
            assert_eq!(status(request).as_deref(), Some(expected), "{request:?}");
        }
        assert_eq!(answer(b"GET / HTTP/1.1\r\n\r\n", Some(77)).map(|response| response.body), Some(77));
        assert_eq!(answer(b"GET /bytes/x HTTP/1.1\r\n\r\n", Some(77)).map(|response| response.body), Some(0));
        assert_eq!(status("GET /bytes/5 HTTP/1.1\r\nHost: x\r\n"), None);
        assert_eq!(status(&"x".repeat(LARGEST_HEAD)).as_deref(), Some("431"));
    }

    proptest! {
        #[test]
        fn no_request_panics(bytes in prop::collection::vec(any::<u8>(), 0..100), end: bool) {
            let mut bytes = bytes;
            bytes.extend(if end { &b"\r\n\r\n"[..] } else { b"" });
            prop_assert!(answer(&bytes, None).is_some() || !end);
        }
    }
}
