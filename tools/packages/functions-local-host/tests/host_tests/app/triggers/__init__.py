"""Every module here has a `blueprint`; function_app.py registers them all."""
