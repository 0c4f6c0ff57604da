// Lets segments.go have functions without bodies: they are linked to those of netstack.
