//! The crate's one integration binary: values against the core and the 25-digit tables, gradients
//! against differences, a network that learns.

#[cfg(feature = "candle")]
mod candle;
#[cfg(feature = "burn")]
mod head;
#[cfg(feature = "burn")]
mod loss;
mod reference;
#[cfg(feature = "burn")]
mod special;
#[cfg(feature = "burn")]
mod tensors;
#[cfg(feature = "burn")]
mod training;
