"""What an API server admits: defaults and rules for objects, plugins that change or refuse them."""
