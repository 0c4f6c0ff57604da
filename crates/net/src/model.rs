//! Models: what decides something for each packet of a link, whether it is lost or how much later it arrives, by parameters and a random stream.

use warpline_core::parameter::Component;
use warpline_core::{Stream, Timestamp};

/// A model of one of the lists in `loss` and `jitter`; its decisions are of type `Decision`.
pub trait Model<Decision>: Sized {
    /// Its parameters.
    type Params: Component;

    /// The model before its first packet.
    fn new(params: &Self::Params) -> Self;

    /// Decides for the next packet, whose last bit leaves at `at`; what is random about it comes from `stream`.
    fn decide(&mut self, at: Timestamp, stream: &mut Stream) -> Decision;

    /// What it does, in words for people: "loss 1 %". Its name, unless it says more.
    fn words(params: &Self::Params) -> String {
        let _ = params;
        Self::Params::KIND.to_owned()
    }
}

/// What a list of models makes: their modules and names, an enum of their parameters, and an enum of the models themselves, without a virtual
/// call.
macro_rules! models {
    (
        $(#[$about:meta])* $params:ident,
        $(#[$about_any:meta])* $any:ident -> $decision:ty;
        $($file:ident::$name:ident),+ $(,)?
    ) => {
        $(
            mod $file;
            pub use $file::*;
        )+

        #[derive(Clone, Debug, PartialEq, Choice)]
        $(#[$about])*
        pub enum $params {
            $(
                #[doc = concat!("[`", stringify!($name), "`].")]
                $name(<$name as Model<$decision>>::Params),
            )+
        }

        impl $params {
            /// What it does, in words for people.
            pub fn words(&self) -> String {
                match self { $( $params::$name(params) => $name::words(params), )+ }
            }

            fn build(&self) -> $any {
                match self { $( $params::$name(params) => $any::$name($name::new(params)), )+ }
            }
        }

        $(#[$about_any])*
        #[derive(Clone, Debug)]
        enum $any {
            $( $name($name), )+
        }

        impl $any {
            fn decide(&mut self, at: Timestamp, stream: &mut Stream) -> $decision {
                match self { $( $any::$name(model) => model.decide(at, stream), )+ }
            }
        }
    };
}
