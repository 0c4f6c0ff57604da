//! The engine as its users see it: properties over random networks, and the trace of a small one.

mod changes;
mod cuts;
mod golden;
mod hosts;
mod late;
mod pfc;
mod properties;
mod radio;
mod routes;
mod settled;
mod shaped;
mod timing;
mod world;
