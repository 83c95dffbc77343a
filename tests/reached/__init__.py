"""Whether somebody outside of the tests reaches what `shared` has."""
