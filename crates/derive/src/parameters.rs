//! `#[derive(Parameters)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Expr, Field, Fields, LitStr, Path};

use crate::docs;

/// The contents of `#[parameter(...)]` at a field.
#[derive(Default)]
struct Said {
    default: Option<Expr>,
    low: Option<(Expr, bool)>,
    high: Option<(Expr, bool)>,
    not_below: Option<LitStr>,
    not_above: Option<LitStr>,
    unit: Option<LitStr>,
    was: Option<LitStr>,
    preset: Option<Path>,
    required: bool,
    share: bool,
    flatten: bool,
    skip: bool,
}

impl Said {
    fn of(field: &Field) -> syn::Result<Said> {
        let mut said = Said::default();
        for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("parameter")) {
            attribute.parse_nested_meta(|meta| {
                let key = meta.path.require_ident()?.to_string();
                let value = || meta.value();
                match key.as_str() {
                    "default" => said.default = Some(value()?.parse()?),
                    "min" | "above" => said.low = Some((value()?.parse()?, key == "above")),
                    "max" | "below" => said.high = Some((value()?.parse()?, key == "below")),
                    "not_below" => said.not_below = Some(value()?.parse()?),
                    "not_above" => said.not_above = Some(value()?.parse()?),
                    "unit" => said.unit = Some(value()?.parse()?),
                    "was" => said.was = Some(value()?.parse()?),
                    "preset" => said.preset = Some(value()?.parse()?),
                    "required" => said.required = true,
                    "share" => said.share = true,
                    "flatten" => said.flatten = true,
                    "skip" => said.skip = true,
                    _ => return Err(meta.error("unknown key of #[parameter]")),
                }
                Ok(())
            })?;
        }
        if said.share {
            said.low.get_or_insert((syn::parse_quote!(0.0), false));
            said.high.get_or_insert((syn::parse_quote!(1.0), false));
        }
        Ok(said)
    }
}

fn optional(text: &Option<LitStr>) -> TokenStream {
    match text {
        Some(text) => quote!(::std::option::Option::Some(#text)),
        None => quote!(::std::option::Option::None),
    }
}

/// The code for one end of a range.
fn end(field: &Field, end: &Option<(Expr, bool)>) -> TokenStream {
    let ty = &field.ty;
    match end {
        Some((value, open)) => quote! {{
            let end: #ty = #value;
            ::std::option::Option::Some(::warpline_core::parameter::End::new(&end, #open))
        }},
        None => quote!(::std::option::Option::None),
    }
}

/// The code that adds a field to the list of all.
fn entry(field: &Field, said: &Said) -> TokenStream {
    let ident = &field.ident;
    if said.flatten {
        return quote!(fields.extend(::warpline_core::parameter::Parameters::fields(&mut self.#ident)););
    }
    let name = ident.as_ref().map(|ident| ident.to_string().trim_start_matches("r#").to_owned());
    let about = docs(&field.attrs);
    let unit = said.unit.as_ref().map_or(String::new(), LitStr::value);
    let was = optional(&said.was);
    let (not_below, not_above) = (optional(&said.not_below), optional(&said.not_above));
    let (low, high) = (end(field, &said.low), end(field, &said.high));
    let (required, share, preset) = (said.required, said.share, said.preset.is_some());
    quote! {
        fields.push(::warpline_core::parameter::Field {
            name: #name,
            about: #about,
            unit: #unit,
            was: #was,
            required: #required,
            share: #share,
            preset: #preset,
            range: || ::warpline_core::parameter::Range {
                low: #low,
                high: #high,
                not_below: #not_below,
                not_above: #not_above,
            },
            value: &mut self.#ident,
        });
    }
}

pub(crate) fn derive(input: DeriveInput) -> syn::Result<TokenStream> {
    let name = &input.ident;
    let Data::Struct(syn::DataStruct { fields: Fields::Named(named), .. }) = &input.data else {
        return Err(Error::new_spanned(name, "Parameters is for structs with named fields only"));
    };
    let fields: Vec<(&Field, Said)> =
        named.named.iter().map(|field| Ok((field, Said::of(field)?))).collect::<syn::Result<_>>()?;
    let entries = fields.iter().filter(|(_, said)| !said.skip).map(|(field, said)| entry(field, said));
    let names = fields.iter().map(|(field, _)| &field.ident);
    let defaults = fields.iter().map(|(_, said)| match &said.default {
        Some(default) => quote!(#default),
        None => quote!(::std::default::Default::default()),
    });
    let follow_preset = fields.iter().find_map(|(field, said)| {
        let (ident, preset) = (&field.ident, said.preset.as_ref()?);
        Some(quote! {
            fn follow_preset(&mut self) {
                *self = #preset(self.#ident);
            }
        })
    });
    let component = match input.attrs.iter().find(|attribute| attribute.path().is_ident("component")) {
        Some(attribute) => {
            let kind: LitStr = attribute.parse_args()?;
            let about = docs(&input.attrs);
            quote! {
                impl ::warpline_core::parameter::Component for #name {
                    const KIND: &'static str = #kind;
                    const ABOUT: &'static str = #about;
                }
            }
        }
        None => quote!(),
    };
    Ok(quote! {
        impl ::warpline_core::parameter::Parameters for #name {
            fn fields(&mut self) -> ::std::vec::Vec<::warpline_core::parameter::Field<'_>> {
                let mut fields = ::std::vec::Vec::new();
                #(#entries)*
                fields
            }
            #follow_preset
        }
        impl ::std::default::Default for #name {
            fn default() -> Self {
                #name { #(#names: #defaults),* }
            }
        }
        #component
    })
}
