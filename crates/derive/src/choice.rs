//! `#[derive(Choice)]`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, LitStr, Type};

pub(crate) fn derive(input: DeriveInput) -> syn::Result<TokenStream> {
    let name = &input.ident;
    let Some(what) = input.attrs.iter().find(|attribute| attribute.path().is_ident("choice")) else {
        return Err(Error::new_spanned(name, "name what is chosen, as in #[choice(\"queue\")]"));
    };
    let what: LitStr = what.parse_args()?;
    let Data::Enum(data) = &input.data else {
        return Err(Error::new_spanned(name, "Choice is for enums only"));
    };
    let variants: Vec<_> = data.variants.iter().map(|variant| &variant.ident).collect();
    let types: Vec<&Type> = data
        .variants
        .iter()
        .map(|variant| match &variant.fields {
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => Ok(&fields.unnamed[0].ty),
            _ => Err(Error::new_spanned(variant, "each variant holds one component")),
        })
        .collect::<syn::Result<_>>()?;
    let parameter = quote!(::warpline_core::parameter);
    Ok(quote! {
        impl #parameter::Choice for #name {
            const WHAT: &'static str = #what;
            const KINDS: &'static [&'static str] = &[#(<#types as #parameter::Component>::KIND),*];
            fn all() -> ::std::vec::Vec<Self> {
                ::std::vec![#(Self::#variants(::std::default::Default::default())),*]
            }
            fn kind(&self) -> &'static str {
                match self { #(Self::#variants(_) => <#types as #parameter::Component>::KIND),* }
            }
            fn about(&self) -> &'static str {
                match self { #(Self::#variants(_) => <#types as #parameter::Component>::ABOUT),* }
            }
            fn parameters(&mut self) -> &mut dyn #parameter::Parameters {
                match self { #(Self::#variants(parameters) => parameters),* }
            }
        }
        impl ::std::str::FromStr for #name {
            type Err = #parameter::ParameterError;
            fn from_str(text: &str) -> ::std::result::Result<Self, Self::Err> {
                #parameter::read(text)
            }
        }
        impl ::std::fmt::Display for #name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                #parameter::write(self, f)
            }
        }
    })
}
