//! Derives for `warpline_core::parameter`, which says what they stand for and exports them.
//!
//! What a parameter is, its default, its range, its unit and what it means, is written once, at its field:
//!
//! ```ignore
//! /// TCP Nice (Venkataramani, Kokku and Dahlin 2002).
//! #[derive(Clone, Debug, PartialEq, Parameters)]
//! #[component("nice")]
//! pub struct NiceParams {
//!     /// Slow start and byte counting.
//!     #[parameter(flatten)]
//!     pub slow_start: SlowStartParams,
//!     /// Smallest window.
//!     #[parameter(default = 1.0 / 48.0, above = 0.0, unit = "segments", was = "min_window")]
//!     pub floor: f64,
//! }
//! ```
//!
//! | at a field | |
//! |---|---|
//! | `default = VALUE` | what it is if nothing else is said; else that of its type |
//! | `min`, `above`, `max`, `below = VALUE` | its range; `min` and `max` are within it, `above` and `below` are not |
//! | `not_below`, `not_above = "FIELD"` | another parameter that bounds it |
//! | `unit = "TEXT"` | what a number counts |
//! | `was = "NAME"` | a former name, which is still read |
//! | `required` | it must be given; the default is an example |
//! | `share` | a number that may be written as a percentage; from 0 to 1, unless another range is given |
//! | `preset = FUNCTION` | a word that stands for the defaults of all others, which the function makes of it |
//! | `skip` | it is no parameter |
//! | `flatten` | the field's own parameters are this component's |

mod choice;
mod parameters;
mod words;

use proc_macro::TokenStream;
use syn::{Attribute, DeriveInput, Expr, Lit, Meta};

/// `Parameters` and `Default` for a struct of parameters, and `Component` where it has `#[component("kind")]`.
#[proc_macro_derive(Parameters, attributes(parameter, component))]
pub fn parameters(input: TokenStream) -> TokenStream {
    expand(input, parameters::derive)
}

/// `Words` for an enum without fields: each variant is a word.
#[proc_macro_derive(Words)]
pub fn words(input: TokenStream) -> TokenStream {
    expand(input, words::derive)
}

/// `Choice`, `FromStr` and `Display` for an enum of components, `#[choice("what they are")]`.
#[proc_macro_derive(Choice, attributes(choice))]
pub fn choice(input: TokenStream) -> TokenStream {
    expand(input, choice::derive)
}

fn expand(
    input: TokenStream,
    derive: fn(DeriveInput) -> syn::Result<proc_macro2::TokenStream>,
) -> TokenStream {
    let derived = syn::parse(input).and_then(derive);
    derived.unwrap_or_else(|error| error.into_compile_error()).into()
}

/// The text of the doc comments, on one line; a blank line ends it, so that further paragraphs are for programmers.
fn docs(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(doc) if doc.path.is_ident("doc") => match &doc.value {
            Expr::Lit(text) => match &text.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// A name as scenarios write it: `GilbertElliott` is "gilbert-elliott".
fn kebab(name: &str) -> String {
    let mut kebab = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.extend(c.to_lowercase());
    }
    kebab
}
