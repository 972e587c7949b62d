# rondo_embed(TARGET NAMESPACE VARIABLE FILE): compiles the text of FILE into TARGET as
# `namespace NAMESPACE { extern const std::string_view VARIABLE; }`, made again when FILE changes.
function(rondo_embed target namespace variable file)
  get_filename_component(path ${file} ABSOLUTE)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/embedded_${variable}.cpp)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DINPUT=${path} -DOUTPUT=${output} -DNAMESPACE=${namespace} -DVARIABLE=${variable}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed_file.cmake
    DEPENDS ${path} ${PROJECT_SOURCE_DIR}/cmake/embed_file.cmake
    VERBATIM)
  # The rule is of this folder, the target may be of another: the dependency between targets carries the order.
  add_custom_target(${target}_embed_${variable} DEPENDS ${output})
  add_dependencies(${target} ${target}_embed_${variable})
  target_sources(${target} PRIVATE ${output})
endfunction()
