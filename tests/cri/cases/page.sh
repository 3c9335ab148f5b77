# shellcheck shell=bash
# What docs/kubernetes.md shows.

the_page_shows_what_configure_writes() {
    mkdir "$CASE/1.x" "$CASE/2.x" "$CASE/2.x/conf.d"
    echo 'version = 2' >"$CASE/1.x/config.toml"
    printf '%s\n' 'version = 3' "imports = [\"$CASE/2.x/conf.d/*.toml\"]" >"$CASE/2.x/config.toml"
    local folder
    for folder in 1.x 2.x; do
        "$WORK/bin/neuron-ctk" configure containerd --config "$CASE/$folder/config.toml"
    done
    equal "the table of 1.x" "$(_bare "$CASE/1.x/config.toml")" "$(_shown 2)"
    equal "the file for 2.x" "$(_bare "$CASE"/2.x/conf.d/*.toml)" "$(_shown 3)"
}

# The file without comments, empty lines and indentation, and with the wrapper where install.sh puts it.
_bare() {
    sed -e '/^ *#/d' -e '/^$/d' -e 's/^ *//' -e "s#$WORK/bin/#/usr/local/bin/#" "$1"
}

# The block of the page that begins with this version.
_shown() {
    sed -n "/^    version = $1\$/,/BinaryName/p" "$HERE/../../docs/kubernetes.md" | _bare /dev/stdin
}
