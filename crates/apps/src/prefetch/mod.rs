//! A trace-driven prefetching client, the first case study of TCP Nice (OSDI 2002, section 6.1).
//!
//! Virtual clients replay a trace of requests against a web server, each with a cache and with one connection for what was asked for and
//! another for what is fetched ahead. The two go to different ports, so that the server can send on them with different congestion
//! controls.
//!
//! * [`ppm`]: what will be asked for. [`trace`]: what is asked for, from a log or made up. [`server`]: nginx with the trace's objects.
//! * [`http`]: one connection. [`client`]: the virtual clients, and what they saw.

pub mod client;
pub mod http;
pub mod ppm;
pub mod server;
pub mod trace;
