import _cffi_backend

ffi: _cffi_backend.FFI
lib: _cffi_backend.Lib
