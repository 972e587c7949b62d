# A string literal may hold 65,536 bytes at least (C++ Annex B), so the text is cut into lines that the compiler joins.
file(READ ${INPUT} text)
string(REGEX REPLACE "\\\\" "\\\\\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
file(WRITE ${OUTPUT}
     "#include <string_view>\nnamespace ${NAMESPACE} {\n"
     "extern const std::string_view ${VARIABLE};\n"
     "const std::string_view ${VARIABLE} =\n    \"${text}\";\n}\n")
