"""The library of engines that ask inference servers over HTTP; it registers nothing."""
