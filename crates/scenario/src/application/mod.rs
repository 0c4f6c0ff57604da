//! Applications: what flows send, with which keys of a `[[flow]]`.

/// What the list of applications makes: their modules and names, [`App`] for their names alone, and [`Application`] for their parameters.
macro_rules! applications {
    ($($file:ident::{$($(#[$mark:meta])* $name:ident),+}),+ $(,)?) => {
        $(
            mod $file;
            pub use $file::*;
        )+

        /// What a flow sends.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum App {
            $($(
                #[doc = concat!("[`", stringify!($name), "`].")]
                $(#[$mark])*
                $name,
            )+)+
        }

        /// What a flow sends, with every parameter filled in.
        #[derive(Clone, Debug, PartialEq, Choice)]
        #[choice("application")]
        pub enum Application {
            $($(
                #[doc = concat!("[`", stringify!($name), "`].")]
                $name($name),
            )+)+
        }

        impl App {
            /// The application with its defaults.
            fn plain(self) -> Application {
                match self { $($( App::$name => Application::$name($name::default()), )+)+ }
            }
        }

        impl Application {
            fn pattern(&mut self) -> &mut dyn Pattern {
                match self { $($( Application::$name(own) => own, )+)+ }
            }
        }
    };
}

// A new application is one file beside this one and one line here. `cargo fmt` does not look behind the macro: `make format` does.
applications! {
    bulk::{#[default] Bulk},
    transfer::{Transfer},
    cbr::{Cbr},
    poisson::{Poisson},
    onoff::{Onoff},
    media::{Media},
    cap::{Cap},
    treno::{Treno},
    arrivals::{Arrivals},
    web::{Web},
    request::{Request},
    service::{Discard, Echo, Source, Http},
}

mod keys;

use std::borrow::Cow;

pub use keys::Keys;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use warpline_core::parameter::Choice;

use super::checker::Check;
use super::flow::{Flow, Transport};

/// What there is to know of an application besides its parameters.
trait Pattern {
    /// What may carry it; the first does so unless the flow says otherwise.
    fn carriers(&self) -> &'static [Transport] {
        &[Transport::Tcp]
    }
    /// Whether it is a service that a simulated host offers to programs.
    fn is_service(&self) -> bool {
        false
    }
    /// Whether the kernels of guests can send and receive it by themselves.
    fn is_for_kernels(&self) -> bool {
        false
    }
    /// What it is to a run that skips stretches of time.
    fn skipping(&self) -> Skipping {
        Skipping::Around
    }
    /// Takes from its flow what is none of its parameters.
    fn complete(&mut self, flow: &Flow) {
        let _ = flow;
    }
    /// Notes what is wrong with flow `number`, ranges aside.
    fn check(&self, check: &mut Check<'_>, number: usize, flow: &Flow) {
        let _ = (check, number, flow);
    }
}

/// What an application is to a run that skips stretches of time (`fast_forward`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skipping {
    /// It goes on in the same way from its start to its stop, so that a stretch of it can be skipped.
    Within,
    /// It is run exactly from its start to its end: nothing is skipped while it is there.
    Around,
    /// Its results are moments on the clock that skipping would falsify.
    Refused,
}

impl App {
    /// What it is to a run that skips stretches of time.
    pub fn skipping(self) -> Skipping {
        self.plain().pattern().skipping()
    }

    /// The word scenarios use.
    pub fn name(self) -> &'static str {
        self.plain().kind()
    }

    /// Whether it is a service that a simulated host offers to programs.
    pub fn is_service(self) -> bool {
        self.plain().pattern().is_service()
    }

    /// Whether the kernels of guests can send and receive it by themselves.
    pub(super) fn is_for_kernels(self) -> bool {
        self.plain().pattern().is_for_kernels()
    }

    /// What may carry it; the first does so unless the flow says otherwise.
    pub(super) fn carriers(self) -> &'static [Transport] {
        self.plain().pattern().carriers()
    }
}

impl Application {
    /// What `flow` sends; a parameter that it does not give has its default.
    pub(super) fn of(flow: &Flow) -> Self {
        let mut application = flow.app.plain();
        flow.keys.put_into(application.parameters());
        application.pattern().complete(flow);
        application
    }

    /// The names of those that UDP can carry.
    pub(super) fn over_udp() -> Vec<&'static str> {
        Self::names(|own| own.carriers().contains(&Transport::Udp))
    }

    /// The names of those that the kernels of guests can send and receive by themselves.
    pub(super) fn for_kernels() -> Vec<&'static str> {
        Self::names(|own| own.is_for_kernels())
    }

    fn names(which: impl Fn(&dyn Pattern) -> bool) -> Vec<&'static str> {
        Self::all().iter_mut().filter_map(|own| which(own.pattern()).then(|| own.kind())).collect()
    }

    /// Notes what is wrong with flow `number`, ranges aside.
    pub(super) fn check(&mut self, check: &mut Check<'_>, number: usize, flow: &Flow) {
        self.pattern().check(check, number, flow);
    }
}

impl JsonSchema for App {
    fn schema_name() -> Cow<'static, str> {
        "App".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let word =
            |app: &Application| json!({"type": "string", "const": app.kind(), "description": app.about()});
        let words: Vec<Value> = Application::all().iter().map(word).collect();
        json_schema!({"oneOf": words, "description": "What a flow sends."})
    }
}
