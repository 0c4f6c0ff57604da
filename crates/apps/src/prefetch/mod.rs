//! A trace-driven prefetching client, the first case study of TCP Nice (OSDI 2002, section 6.1).
//!
//! Virtual clients replay a trace of requests against a web server, each with a cache, one connection for requested objects and
//! another for prefetched ones. The two go to different ports, so that the server can send on them with different congestion
//! controls.
//!
//! * [`ppm`]: the predictor. [`trace`]: the requests, from a log or generated. [`server`]: nginx with the trace's objects.
//! * [`http`]: one connection. [`client`]: the virtual clients, and their results. [`room`]: how many of them the system allows.

pub mod client;
pub mod http;
pub mod ppm;
pub mod room;
pub mod server;
pub mod trace;
