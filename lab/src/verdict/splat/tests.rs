//! Golden logs: what is read from what real kernels wrote.
