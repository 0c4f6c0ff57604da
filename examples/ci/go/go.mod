module example.org/ci

go 1.21
