//! What the list of algorithms in `cc/mod.rs` makes: their modules and names, [`Algorithm`](super::Algorithm) for their parameters, and
//! [`Controller`](super::Controller) for any of them at work, without a virtual call.

/// The type that a controller holds an algorithm by: large ones are `boxed`, so that a connection stays small.
macro_rules! held {
    ($name:ident) => { $name };
    ($name:ident boxed) => { Box<$name> };
}

macro_rules! algorithms {
    ($($list:tt)+) => { define_algorithms! { ($) $($list)+ } };
}

/// `$dollar` is a dollar sign, for the macro that this makes.
macro_rules! define_algorithms {
    (($dollar:tt) $($file:ident::$name:ident $($boxed:ident)?),+ $(,)?) => {
        $(
            mod $file;
            pub use $file::*;
        )+

        /// An algorithm and its parameters, as plain data. As text it is a name, and the parameters that differ from its defaults:
        /// `cubic:beta=0.5,hystart=no`.
        #[derive(Clone, Copy, Debug, PartialEq, Choice)]
        #[choice("congestion control")]
        #[non_exhaustive]
        pub enum Algorithm {
            $(
                #[doc = concat!("[`", stringify!($name), "`].")]
                $name(<$name as BuiltIn>::Params),
            )+
        }

        impl Algorithm {
            /// The congestion control of a new connection. It resumes from what `config` has saved, if it goes by a window.
            pub fn build(&self, config: &CcConfig) -> Controller {
                let controller = match self {
                    $( Algorithm::$name(params) => Controller::$name($name::new(params, config).into()), )+
                };
                careful_resume::resume(controller, config)
            }
        }

        /// A connection's congestion control. The path of every acknowledgement goes through here: a `match`, no virtual call.
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum Controller {
            $(
                #[doc = concat!("[`", stringify!($name), "`].")]
                $name(held!($name $($boxed)?)),
            )+
            /// Anything else: an algorithm of the user's own.
            Boxed(Box<dyn CongestionControl>),
        }

        impl Controller {
            /// Whether a built-in algorithm reads delivery rates; false for any other.
            fn built_in_reads_delivery_rate(&self) -> bool {
                match self {
                    $( Controller::$name(_) => <$name as BuiltIn>::READS_DELIVERY_RATE, )+
                    Controller::Boxed(_) => false,
                }
            }
        }

        /// The same expression for whichever algorithm it is.
        macro_rules! each {
            ($dollar controller:expr, $dollar algorithm:ident => $dollar call:expr) => {
                match $dollar controller {
                    $( Controller::$name($dollar algorithm) => $dollar call, )+
                    Controller::Boxed($dollar algorithm) => $dollar call,
                }
            };
        }
    };
}
