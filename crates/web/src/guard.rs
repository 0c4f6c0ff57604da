//! Who may ask: only the page that the server gave to the one who started it.
//!
//! Any page of the same browser can send requests to this machine. Four things keep it out. The interface wants a token in a header, which another
//! page does not know and a form cannot send. `Host` must be our own address, so that a name that was bound to it later (DNS rebinding) is
//! refused. `Origin`, and `Sec-Fetch-Site` where the browser says it, must be ours. No answer allows another origin to read it.

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use subtle::ConstantTimeEq as _;

use crate::answer::Refusal;
use crate::server::Lab;

/// What the page may load: scripts and styles that the server gives, and nothing from elsewhere.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; frame-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A report may run its own scripts, in an origin of its own that has no rights here.
const REPORT_POLICY: &str = "sandbox allow-scripts allow-downloads allow-modals; frame-ancestors 'self'";

/// Paths of the interface begin so.
const INTERFACE: &str = "/api/";
/// Where a page that was opened by an address for once gets the token.
const ENTER: &str = "/api/enter";
/// Paths of reports begin so.
pub(crate) const REPORTS: &str = "/report/";

/// Headers of every answer, beside the policy.
const HEADERS: [(&str, &str); 5] = [
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
];

/// What a request is held against.
#[derive(Debug)]
pub(crate) struct Guard {
    token: String,
    /// Our own names, as `Host` has them.
    hosts: Vec<String>,
    /// Keys that each let one page in.
    once: Mutex<Vec<String>>,
}

/// A word of random letters and digits that cannot be guessed.
///
/// # Errors
/// If the system has no random numbers.
pub(crate) fn secret() -> std::io::Result<String> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Guard {
    /// For the server at this port.
    pub(crate) fn new(token: String, port: u16) -> Guard {
        let names = ["127.0.0.1", "localhost"];
        let mut hosts = names.map(|name| format!("{name}:{port}")).to_vec();
        // Browsers leave out the port that `http:` has anyway.
        if port == 80 {
            hosts.extend(names.map(str::to_owned));
        }
        Guard { token, hosts, once: Mutex::default() }
    }

    /// The token.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Lets the page in that comes first with this key.
    pub(crate) fn let_in_once(&self, key: String) {
        self.once.lock().unwrap_or_else(PoisonError::into_inner).push(key);
    }

    /// The token for a page that comes with such a key.
    pub(crate) fn enter(&self, key: &str) -> Result<&str, Refusal> {
        let mut keys = self.once.lock().unwrap_or_else(PoisonError::into_inner);
        let known = keys.iter().position(|own| bool::from(own.as_bytes().ct_eq(key.as_bytes())));
        let Some(known) = known else {
            return Err(Refusal {
                status: StatusCode::UNAUTHORIZED,
                message: "this address was for once; open the one that `warpline lab` printed".to_owned(),
            });
        };
        keys.swap_remove(known);
        Ok(&self.token)
    }

    /// Whether a request may go on.
    fn admit(&self, path: &str, authority: Option<&str>, headers: &HeaderMap) -> Result<(), Refusal> {
        let text = |name: header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let host = text(header::HOST);
        let own = |host: &str| self.hosts.iter().any(|own| own == host);
        let several = headers.get_all(header::HOST).iter().count() > 1;
        if several || !host.is_some_and(own) || !authority.is_none_or(own) {
            let message = format!("this is the lab at {}, which is not called by that name", self.hosts[0]);
            return Err(Refusal { status: StatusCode::MISDIRECTED_REQUEST, message });
        }
        let foreign = |origin: &str| origin.strip_prefix("http://") != host;
        if headers.get_all(header::ORIGIN).iter().any(|origin| foreign(origin.to_str().unwrap_or("?"))) {
            return Err(Refusal::forbidden("requests of other pages are refused"));
        }
        let site = headers.get("sec-fetch-site").map(|value| value.to_str().unwrap_or("?"));
        // Whoever follows a link to the page gets the page, which knows nothing.
        let page = path == "/";
        if !page && !matches!(site, None | Some("same-origin" | "none")) {
            return Err(Refusal::forbidden("requests of other pages are refused"));
        }
        if !path.starts_with(INTERFACE) || path == ENTER {
            return Ok(());
        }
        let given =
            text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        if bool::from(given.as_bytes().ct_eq(self.token.as_bytes())) {
            return Ok(());
        }
        let message =
            "the address of this page has lost its key; open the address that `warpline lab` printed";
        Err(Refusal { status: StatusCode::UNAUTHORIZED, message: message.to_owned() })
    }
}

/// Lets a request through or refuses it, and gives the answer its headers.
pub(crate) async fn guard(State(lab): State<Arc<Lab>>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let authority = request.uri().authority().map(|own| own.as_str());
    let mut response = match lab.guard.admit(&path, authority, request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let policy = if path.starts_with(REPORTS) { REPORT_POLICY } else { POLICY };
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(path: &str, headers: &[(&str, &str)]) -> u16 {
        let guard = Guard::new("key".to_owned(), 80);
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name = header::HeaderName::from_bytes(name.as_bytes()).unwrap();
            map.append(name, HeaderValue::from_str(value).unwrap());
        }
        guard.admit(path, None, &map).map_or_else(|refusal| refusal.status.as_u16(), |()| 200)
    }

    #[test]
    fn only_the_own_page_may_ask() {
        let (host, key) = (("host", "127.0.0.1:80"), ("authorization", "Bearer key"));
        assert_eq!(status("/api/runs", &[host, key]), 200);
        assert_eq!(
            status("/api/runs", &[("host", "localhost:80"), key, ("origin", "http://localhost:80")]),
            200
        );
        // The usual port need not be said.
        let short = ("host", "localhost");
        assert_eq!(status("/api/runs", &[short, key, ("origin", "http://localhost")]), 200);
        assert_eq!(status("/api/runs", &[short, key, ("origin", "http://127.0.0.1")]), 403);
        // Without the token, or with another one.
        assert_eq!(status("/api/runs", &[host]), 401);
        assert_eq!(status("/api/runs", &[host, ("authorization", "Bearer kez")]), 401);
        assert_eq!(status("/api/runs", &[host, ("cookie", "key=key")]), 401);
        // Under another name, as after DNS rebinding; with none, or with two.
        assert_eq!(status("/api/runs", &[("host", "evil.example:80"), key]), 421);
        assert_eq!(status("/", &[("host", "evil.example:80")]), 421);
        assert_eq!(status("/", &[]), 421);
        assert_eq!(status("/", &[host, ("host", "evil.example:80")]), 421);
        // From another page, also of another port of this machine, and from a page without an origin.
        for origin in [
            "http://evil.example",
            "https://127.0.0.1:80",
            "http://127.0.0.1:81",
            "http://localhost:80",
            "null",
        ] {
            assert_eq!(status("/api/runs", &[host, key, ("origin", origin)]), 403, "{origin}");
            assert_eq!(status("/lab.js", &[host, ("origin", origin)]), 403, "{origin}");
        }
        for site in ["cross-site", "same-site"] {
            assert_eq!(status("/api/runs", &[host, key, ("sec-fetch-site", site)]), 403, "{site}");
            assert_eq!(status("/report/x", &[host, ("sec-fetch-site", site)]), 403, "{site}");
        }
        // A key for once is good once.
        let guard = Guard::new("key".to_owned(), 80);
        guard.let_in_once("first".to_owned());
        assert!(guard.enter("second").is_err());
        assert_eq!(guard.enter("first").unwrap(), "key");
        assert!(guard.enter("first").is_err());
        // A link to the page is followed; what it gives knows nothing.
        assert_eq!(status("/", &[host, ("sec-fetch-site", "cross-site")]), 200);
    }
}
