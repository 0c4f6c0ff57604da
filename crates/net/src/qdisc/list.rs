//! What the list of queues in `qdisc/mod.rs` makes: their modules and names, [`QdiscConfig`](super::QdiscConfig) for their parameters, and
//! [`AnyQdisc`](super::AnyQdisc) for any of them at work, without a virtual call.

/// The type that a link holds a queue by: large ones are `boxed`, so that a link with a FIFO stays small.
macro_rules! held {
    ($name:ident) => { $name };
    ($name:ident boxed) => { Box<$name> };
}

macro_rules! queues {
    ($($list:tt)+) => { define_queues! { ($) $($list)+ } };
}

/// `$dollar` is a dollar sign, for the macro that this makes.
macro_rules! define_queues {
    (($dollar:tt) $($file:ident::$name:ident $($boxed:ident)?),+ $(,)?) => {
        $(
            mod $file;
            pub use $file::*;
        )+

        /// A queueing discipline and its parameters, as plain data. As text it is a name, and the parameters that differ from its defaults:
        /// `codel:limit=100p,target=10ms`.
        #[derive(Clone, Debug, PartialEq, Choice)]
        #[choice("queue")]
        #[non_exhaustive]
        pub enum QdiscConfig {
            $(
                #[doc = concat!("[`", stringify!($name), "`].")]
                $name(<$name as BuiltIn>::Params),
            )+
        }

        impl QdiscConfig {
            /// An empty queue on a link of this kind; what is random about it comes from `stream`.
            pub fn build(&self, sizing: &Sizing, stream: Stream) -> AnyQdisc {
                match self {
                    $( QdiscConfig::$name(params) => AnyQdisc::$name($name::new(params, sizing, stream).into()), )+
                }
            }

            /// How it decides on each packet, if it does by what waits and by nothing else.
            pub(crate) fn admission(&self, sizing: &Sizing) -> Option<Admission> {
                match self { $( QdiscConfig::$name(params) => $name::admission(params, sizing), )+ }
            }

            /// What is wrong with its parameters on a link of this kind. A queue can also be built from these, but does nothing useful.
            pub fn faults_on(&self, sizing: &Sizing) -> Vec<OutOfRange> {
                let mut faults = self.faults();
                match self { $( QdiscConfig::$name(params) => faults.extend($name::fault(params, sizing)), )+ }
                faults
            }
        }

        /// Any queueing discipline: a `match`, no virtual call.
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum AnyQdisc {
            $(
                #[doc = concat!("[`", stringify!($name), "`].")]
                $name(held!($name $($boxed)?)),
            )+
            /// One from outside this crate.
            Boxed(Box<dyn Qdisc>),
        }

        /// The same expression for whichever queue it is.
        macro_rules! each {
            ($dollar queue:expr, $dollar own:ident => $dollar call:expr) => {
                match $dollar queue {
                    $( AnyQdisc::$name($dollar own) => $dollar call, )+
                    AnyQdisc::Boxed($dollar own) => $dollar call,
                }
            };
        }
    };
}
